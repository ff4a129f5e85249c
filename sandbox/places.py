"""Where the made-up people live: zip codes, service areas and patient service centers."""

from sandbox.models import Lab, PscSite, ServiceArea

READY = {"draw-at-home": ["appointment-ready"]}
REQUEST = {"visit-nurse": ["appointment-request"]}
BOTH = {"draw-at-home": ["appointment-ready"], "visit-nurse": ["appointment-request"]}

# zip code, city, state, longitude, latitude, zone (some are short ones, as the specification
# permits), who draws blood at home
AREAS: list[tuple[str, str, str, float, float, str, dict[str, list[str]]]] = [
    ("85004", "Phoenix", "AZ", -112.0740, 33.4510, "America/Phoenix", READY),
    ("85281", "Tempe", "AZ", -111.9310, 33.4220, "MST", BOTH),
    ("54650", "Onalaska", "WI", -91.2190, 43.8980, "America/Chicago", REQUEST),
    ("10001", "New York", "NY", -73.9970, 40.7500, "America/New_York", {}),
    ("10451", "Bronx", "NY", -73.9240, 40.8200, "America/New_York", {}),
    ("11201", "Brooklyn", "NY", -73.9900, 40.6950, "America/New_York", {}),
    ("02108", "Boston", "MA", -71.0640, 42.3570, "America/New_York", REQUEST),
    ("33101", "Miami", "FL", -80.1990, 25.7790, "America/New_York", BOTH),
    ("33602", "Tampa", "FL", -82.4590, 27.9530, "EST5EDT", READY),
    ("30303", "Atlanta", "GA", -84.3900, 33.7530, "EST", READY),
    ("60601", "Chicago", "IL", -87.6220, 41.8850, "America/Chicago", BOTH),
    ("75201", "Dallas", "TX", -96.7990, 32.7880, "America/Chicago", READY),
    ("78701", "Austin", "TX", -97.7430, 30.2700, "America/Chicago", READY),
    ("77002", "Houston", "TX", -95.3650, 29.7570, "CST6CDT", BOTH),
    ("80202", "Denver", "CO", -104.9990, 39.7510, "America/Denver", READY),
    ("84101", "Salt Lake City", "UT", -111.9000, 40.7550, "MST7MDT", REQUEST),
    ("98101", "Seattle", "WA", -122.3300, 47.6110, "America/Los_Angeles", READY),
    ("97201", "Portland", "OR", -122.6930, 45.5080, "PST8PDT", REQUEST),
    ("94103", "San Francisco", "CA", -122.4110, 37.7730, "America/Los_Angeles", BOTH),
    ("90012", "Los Angeles", "CA", -118.2390, 34.0610, "America/Los_Angeles", READY),
    ("92101", "San Diego", "CA", -117.1650, 32.7200, "PST8PDT", READY),
    ("89101", "Las Vegas", "NV", -115.1230, 36.1720, "America/Los_Angeles", READY),
    ("96813", "Honolulu", "HI", -157.8520, 21.3130, "HST", {}),
    ("99501", "Anchorage", "AK", -149.8760, 61.2170, "America/Anchorage", {}),
    ("59715", "Bozeman", "MT", -111.0380, 45.6700, "America/Denver", {}),
]

# A lab that books in one state only, and confirms by itself (appointments.md 7).
ONE_STATE_LAB, ONE_STATE = "lab-coast", "NY"

CAPABILITY_SERVICE = "appointment_scheduling_via_service"
CAPABILITY_LAB = "appointment_scheduling_with_lab"
HOURS = {
    "monday": "07:00-16:00",
    "tuesday": "07:00-16:00",
    "wednesday": "07:00-16:00",
    "thursday": "07:00-16:00",
    "friday": "07:00-15:00",
    "saturday": "08:00-12:00",
}
SITE_CAPABILITIES: tuple[list[str], ...] = (
    [CAPABILITY_SERVICE],
    [CAPABILITY_SERVICE, "stat"],
    [CAPABILITY_LAB],
    [],
)
SITE_STREETS = ("Sample Avenue", "Madeup Street", "Fixture Road", "Placeholder Lane")
REMOTE = {"96813", "99501", "59715", "54650"}  # no site anywhere near


def make_places() -> None:
    """Fill service areas and the sites of every lab whose patients walk in."""
    ServiceArea.objects.bulk_create(
        ServiceArea(
            zip_code=zip_code,
            city=city,
            state=state,
            lng=lng,
            lat=lat,
            iana_timezone=zone,
            phlebotomy=served,
        )
        for zip_code, city, state, lng, lat, zone, served in AREAS
    )
    sites = []
    for lab in Lab.objects.filter(collection_methods__contains=["walk_in_test"]).order_by("id"):
        for place, (zip_code, city, state, lng, lat, zone, _) in enumerate(AREAS):
            if zip_code in REMOTE or (lab.slug == ONE_STATE_LAB and state != ONE_STATE):
                continue
            for corner in range(2 if lab.supports_psc_booking else 1):
                index = place * 2 + corner
                sites.append(
                    PscSite(
                        lab=lab,
                        site_code=f"{lab.slug[4].upper()}{zip_code}{corner + 1}",
                        name=f"{lab.name} - {city} {corner + 1}",
                        first_line=f"{100 + 7 * index} {SITE_STREETS[index % 4]}",
                        second_line=f"Suite {index + 1}" if index % 3 == 0 else None,
                        city=city,
                        state=state,
                        zip_code=zip_code,
                        phone_number=f"+1555010{index % 100:02d}0",
                        fax_number=None if index % 2 else f"+1555011{index % 100:02d}0",
                        hours=None if index % 7 == 6 else HOURS,
                        website=None,
                        lng=round(lng + 0.011 * corner + 0.003 * (lab.id % 5), 6),
                        lat=round(lat - 0.007 * corner, 6),
                        iana_timezone=zone,
                        capabilities=(
                            # the first site of a place can always be booked through the service
                            SITE_CAPABILITIES[index % 2 if corner == 0 else 1 + index % 3]
                            if lab.supports_psc_booking
                            else [CAPABILITY_LAB]
                        ),
                        supported_bill_types=(
                            ["client_bill", "commercial_insurance", "patient_bill"]
                            if index % 4
                            else ["client_bill"]
                        ),
                        is_active=index % 17 != 16,
                    )
                )
    PscSite.objects.bulk_create(sites)
