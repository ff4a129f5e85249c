"""Slots that can be booked, for visits at home and at service centers (appointments.md 2)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.http import HttpResponse

from sandbox import booking_keys, clock, slots
from sandbox.api import person_fields, vocabulary
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, malformed
from sandbox.api.params import Day, Flag, Param, Text
from sandbox.api.request_bodies import Field, limited_text, read_body, schema, typed_field
from sandbox.api.responses import json_response
from sandbox.api.service_areas import BOOKABLE_HERE, near_sites
from sandbox.models import Lab, PscSite, ServiceArea, World
from sandbox.slots import Venue

US_ADDRESS: tuple[Field, ...] = (
    Field("first_line", person_fields.filled, required=True),
    Field("second_line", limited_text(200), nullable=True),
    typed_field("city", Text(min_length=1, max_length=100), required=True),
    Field("state", person_fields.us_state, required=True),
    typed_field("zip_code", person_fields.ZIP, required=True),
    Field("unit", limited_text(200), nullable=True),
    Field("access_notes", limited_text(1000), nullable=True),
)
_MOST_SITE_CODES = 3
_WEST_OF_ALL = timedelta(hours=-10)  # where the day begins last
_START = Param("start_date", Day(), note="today by default; fourteen days from there on")


def check_address(address: dict[str, Any]) -> None:
    """Refuse an address without a house number."""
    if not any(letter.isdigit() for letter in address["first_line"]):
        raise Refusal(400, "The address cannot be reached: a street with number is needed")


def _first_day(api_request: ApiRequest, now: datetime) -> date | None:
    day: date | None = api_request["start_date"]
    if day is not None and day < (now + _WEST_OF_ALL).date():
        raise Refusal(400, "start_date is in the past")
    return day


def _days(
    seed: int, venue: Venue, first: date | None, now: datetime, address: dict[str, Any] | None
) -> Iterable[tuple[date, list[dict[str, Any]]]]:
    """The fourteen days of a venue with their TimeSlots."""
    first = first or venue.today(now)
    expires_at = now.replace(microsecond=0) + booking_keys.LIFETIME
    days = [first + timedelta(days=number) for number in range(slots.DAYS)]
    offered = [slot for day in days for slot in slots.offered_slots(seed, venue, day, now)]
    by_day: dict[date, list[dict[str, Any]]] = {day: [] for day in days}
    zone = ZoneInfo(venue.zone)
    for slot, count in slots.remaining_slots(offered):
        by_day[slot.start.astimezone(zone).date()].append(
            {
                "booking_key": booking_keys.make(seed, venue, slot.start, expires_at, address),
                "start": slot.start,
                "end": slot.end,
                "expires_at": expires_at,
                "price": slot.price,
                "is_priority": slot.is_priority,
                "num_appointments_available": count,
            }
        )
    return by_day.items()


def _seed() -> int:
    return World.objects.get(id=1).seed


def phlebotomy_availability(api_request: ApiRequest) -> HttpResponse:
    """Return fourteen days; without slots where no provider takes bookings."""
    address = read_body(api_request.request, US_ADDRESS)
    now = clock.now()
    first = _first_day(api_request, now)
    check_address(address)
    area = ServiceArea.objects.filter(pk=address["zip_code"][:5]).first()
    venue = slots.phlebotomy_venue(area) if area else None
    if venue is None:
        first = first or now.date()
        empty = [first + timedelta(days=number) for number in range(slots.DAYS)]
        days: Iterable[tuple[date, list[dict[str, Any]]]] = [(day, []) for day in empty]
    else:
        days = _days(_seed(), venue, first, now, address)
    return json_response(
        {
            "slots": [{"date": day, "slots": found, "location": None} for day, found in days],
            "timezone": area.iana_timezone if area else None,
        }
    )


def find_bookable_lab(slug: str) -> Lab:
    """Return the lab of the service centers; 503 if it is not enabled for the team."""
    lab = Lab.objects.filter(slug=slug, collection_methods__contains=["walk_in_test"]).first()
    if lab is None:
        given = Invalid("enum", "Input should be the slug of a lab with service centers")
        raise malformed(["query", "lab"], given, slug)
    check_enabled(lab)
    return lab


def check_enabled(lab: Lab) -> None:
    if not lab.supports_psc_booking:
        raise Refusal(503, f"Scheduling at service centers of {lab.slug} is not enabled")


def _sites(api_request: ApiRequest, lab: Lab) -> list[tuple[PscSite, float | None]]:
    """Return the requested centers that can be booked, nearest first, with their distance in miles
    from the zip code."""
    codes, zip_code, radius = (
        api_request["site_codes"],
        api_request["zip_code"],
        api_request["radius"],
    )
    if not codes and zip_code is None:
        raise Refusal(400, "Either site_codes or zip_code is required")
    if codes and len(codes) > _MOST_SITE_CODES:
        raise Refusal(400, f"At most {_MOST_SITE_CODES} site_codes can be given")
    if zip_code is not None and radius is None:
        raise Refusal(400, "zip_code needs a radius")
    active = PscSite.objects.filter(lab=lab, is_active=True).select_related("lab")
    if codes:
        known = {site.site_code: site for site in active.filter(site_code__in=codes)}
        if unknown := [code for code in codes if code not in known]:
            raise Refusal(400, f"Site code {unknown[0]} is unknown or no longer active")
        found: list[tuple[PscSite, float | None]] = [
            (known[code], None) for code in dict.fromkeys(codes)
        ]
    else:
        area = ServiceArea.objects.filter(pk=zip_code).first()
        found = [(near.site, near.miles) for near in near_sites(area, active, radius)]
    return [(site, miles) for site, miles in found if BOOKABLE_HERE in site.capabilities]


def psc_availability(api_request: ApiRequest) -> HttpResponse:
    """Return fourteen days for each center; 404 if there is no slot at all."""
    lab = find_bookable_lab(api_request["lab"])
    now, seed = clock.now(), _seed()
    first = _first_day(api_request, now)
    found = [
        {"date": day, "slots": free, "location": _location(site, miles)}
        for site, miles in _sites(api_request, lab)
        for day, free in _days(seed, slots.site_venue(site), first, now, None)
    ]
    if not any(day["slots"] for day in found):
        raise Refusal(404, "No appointment slots were found")
    found.sort(key=lambda day: str(day["date"]))
    return json_response({"slots": found, "timezone": None})


def _location(site: PscSite, miles: float | None) -> dict[str, Any]:
    return {
        "location": {"lng": site.lng, "lat": site.lat},
        "distance": None if miles is None else round(miles),
        "address": {
            "first_line": site.first_line,
            "second_line": site.second_line,
            "city": site.city,
            "state": site.state,
            "zip_code": site.zip_code,
            "unit": site.second_line,
            "access_notes": None,
        },
        "code": site.site_code,
        "name": site.name,
        "iana_timezone": site.iana_timezone,
    }


CALLS = (
    Call(
        "POST",
        "/v3/order/phlebotomy/appointment/availability",
        phlebotomy_availability,
        "Slots for a visit at an address",
        query=(_START,),
        takes=schema(US_ADDRESS),
    ),
    Call(
        "POST",
        "/v3/order/psc/appointment/availability",
        psc_availability,
        "Slots at service centers",
        query=(
            Param("lab", Text(), required=True),
            _START,
            Param("site_codes", Text(max_length=16), many=True, note="at most three"),
            Param("zip_code", Text(pattern=r"\d{5}")),
            Param("radius", vocabulary.RADII, note="miles"),
            Param("allow_stale", Flag(), False),
        ),
    ),
)
