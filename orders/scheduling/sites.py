"""What there is near a patient: who comes to their home, and which centers they may go to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from backoffice.core.service_client import service
from backoffice.service import Service, errors
from backoffice.service import appointments as service_appointments
from labs.models import Lab
from orders.models import Appointment, Order
from orders.scheduling import rules
from orders.scheduling.forms import ADDRESS, MOST_SITES, CenterForm, HomeForm
from orders.scheduling.slots import Group, Offer, Place, Wishes, fresh, is_found, look_up, offer

SECONDS: Final = 5.0
"""How long a person waits for all that one page looks up."""
NEAR: Final = "25"
"""Miles around a ZIP code, where nobody said otherwise."""
WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
WITH_LAB: Final = "appointment_scheduling_with_lab"
SLOW: Final = (
    "The service does not answer just now, so there are no times to show. Nothing was asked or "
    "changed. Try again in a moment."
)
NOT_ENABLED: Final = (
    "Booking at service centres is not switched on for this team: sending it again does not help. "
    "Ask the service to enable it for this lab. Until then the patient walks in, or books with "
    "the lab."
)


@dataclass(slots=True)
class Near:
    """A service center and what can be done about it."""

    site: service_appointments.Site
    chosen: bool = False

    @property
    def code(self) -> str:
        return self.site.site_code

    @property
    def with_lab(self) -> bool:
        return WITH_LAB in self.site.capabilities

    @property
    def stat(self) -> bool:
        return "stat" in self.site.capabilities

    @property
    def hours(self) -> list[tuple[str, str]]:
        """Days and their hours; empty where the lab must be asked."""
        told = self.site.metadata.hours
        if not isinstance(told, dict):
            return []
        days = [day for day in WEEK if told.get(day)]
        days += [str(day) for day in told if day not in WEEK and told[day]]
        return [(day.capitalize(), str(told[day])) for day in days]


@dataclass(slots=True)
class Picker:
    """All that is looked up for one page."""

    offer: Offer | None = None
    trouble: str = ""
    sites: list[Near] = field(default_factory=list)
    far_sites: list[str] = field(default_factory=list)
    """Codes of centers that were chosen near another ZIP code: they wait for it."""
    requests: list[str] = field(default_factory=list)
    """Providers that call the patient and agree a time."""
    unserved: str = ""
    """The ZIP code in which nobody draws at home."""
    nearby: list[tuple[str, int]] = field(default_factory=list)
    """Labs and their centers near an address that nobody comes to."""
    block: Appointment | None = None
    """The patient's visit with the same provider, for another order."""


class _Hurry:
    """Calls that together may take as long as a person waits."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + SECONDS

    def __call__(self) -> Service:
        return service().within(max(self._ends - time.monotonic(), 0.1))


def at_home(form: HomeForm, order: Order, visit: Appointment | None) -> Picker:
    """Times at the address of the form, and who would call the patient instead."""
    found = Picker()
    address = form.address()
    if address is None:
        found.trouble = "The address is not complete: fill it in, and the times are looked up."
        return found
    hurry = _Hurry()
    try:
        if visit is None:
            ready = _serving(found, hurry(), address.zip_code[:5])
            found.block = rules.other_visit(order, [*ready, *found.requests])
            if not ready or found.block is not None:
                return found
        found.offer = _offer(hurry, Place(address=address), form.wishes(), visit)
    except errors.ServiceError as error:
        found.trouble = _words(error)
    return found


def _offer(
    hurry: Callable[[], Service], place: Place, wishes: Wishes, visit: Appointment | None
) -> Offer:
    """Times at a place. A chosen time on another day or at another center is looked up by itself:
    it stays chosen as long as it can be booked."""
    times = look_up(hurry(), place, wishes.start_date)
    chosen = wishes.chosen
    apart = None
    if chosen is not None and not is_found(times, chosen):
        apart = fresh(hurry(), place, chosen)
    state = place.address.state if place.address else ""
    return offer(times, wishes, **_kept(visit), apart=apart, state=state)


def _serving(found: Picker, calls: Service, zip_code: str) -> list[str]:
    """Providers whose times can be booked; the others, and the alternatives, into `found`."""
    area = calls.appointments.area_info(zip_code).data
    ready = []
    for provider in area.phlebotomy.providers:
        if "appointment-ready" in provider.service_types:
            ready.append(provider.name)
        elif "appointment-request" in provider.service_types:
            found.requests.append(provider.name)
    if not ready and not found.requests:
        found.unserved = zip_code
        names = dict(Lab.objects.filter(slug__in=area.central_labs).values_list("slug", "name"))
        found.nearby = [
            (names.get(slug, slug), lab.within_radius)
            for slug, lab in area.central_labs.items()
            if lab.within_radius
        ]
    return ready


def at_center(form: CenterForm, order: Order, visit: Appointment | None) -> Picker:
    """Centers of the order's lab near a ZIP code, and times at up to three of them."""
    found = Picker()
    hurry = _Hurry()
    try:
        sites = _near(hurry(), order, form.told("zip_code") or "", form.told("radius") or NEAR)
        found.sites = [Near(site) for site in sites]
        asked = [*(form.told("sites") or []), *(form.told("far_sites") or [])]
        wanted = _wanted(found.sites, asked, visit)
        codes = {near.code for near in found.sites}
        found.far_sites = [code for code in dict.fromkeys(asked) if code not in codes]
        for near in found.sites:
            near.chosen = near.code in wanted
        if not wanted:
            return found
        place = Place(lab=lab_slug_of(order), sites=tuple(wanted))
        found.offer = _offer(hurry, place, form.wishes(), visit)
        miles = {near.code: near.site.distance for near in found.sites}
        for day in found.offer.days:
            day.groups = as_asked(day.groups, wanted)
            for group in day.groups:
                group.distance = miles.get(group.site)
    except errors.ServiceError as error:
        found.trouble = _words(error)
    return found


def lab_slug_of(order: Order) -> str:
    """The lab of the order; that of its test's markers where the test names none ("lab | Lab or
    null", catalogue.md 2). Empty where they are of several."""
    if order.lab_slug:
        return order.lab_slug
    labs = Lab.objects.filter(markers__in_tests__lab_test=order.lab_test_id)
    slugs = set(labs.values_list("slug", flat=True))
    return slugs.pop() if len(slugs) == 1 else ""


def as_asked(groups: Iterable[Group], wanted: Sequence[str]) -> list[Group]:
    """In the order of the centers that were asked for. Times may be of another one, or say none
    (appointments.md 2): these come last."""
    places = {code: place for place, code in enumerate(wanted)}
    return sorted(groups, key=lambda group: places.get(group.site, len(places)))


def _near(
    calls: Service, order: Order, zip_code: str, radius: str
) -> Sequence[service_appointments.Site]:
    lab = Lab.objects.filter(slug=lab_slug_of(order)).only("pk").first()
    if not zip_code or lab is None or zip_code == address_of(order)["zip_code"][:5]:
        answer = calls.appointments.order_psc_info(order.pk, radius)
    else:
        answer = calls.appointments.psc_info(zip_code, lab.pk, radius)
    return answer.data.patient_service_centers


def _wanted(sites: list[Near], asked: list[str], visit: Appointment | None) -> list[str]:
    """Those asked for that are near; else where the visit is; else the nearest that can be booked
    here."""
    bookable = [near.code for near in sites if near.site.bookable]
    if there := [code for code in asked if code in bookable]:
        return there[:MOST_SITES]
    if visit is not None:
        there = [near.code for near in sites if near.code in bookable and _is_there(near, visit)]
        if there:
            return there[:1]
    return bookable[:MOST_SITES]


def _is_there(near: Near, visit: Appointment) -> bool:
    """Whether the visit is at this center: by its address, as `provider_id` is the provider's own
    string, and only with some of them the site's code."""
    if visit.provider_id == near.code:
        return True
    place = near.site.metadata
    return place is not None and _folded(place.first_line, place.zip_code) == _folded(
        visit.first_line, visit.zip_code
    )


def _folded(first_line: str | None, zip_code: str | None) -> tuple[str, str]:
    return " ".join((first_line or "").split()).casefold(), (zip_code or "")[:5]


def _kept(visit: Appointment | None) -> dict[str, Any]:
    start: datetime | None = visit.start_at if visit else None
    return {"kept": start, "kept_zone": visit.visit_zone if visit else None}


def address_of(order: Order) -> dict[str, str]:
    """The patient's address on the order, as the fields of a form."""
    told = order.said("patient_address") or order.said("shipping_details")
    values = {name: str(told.get(name) or "") for name in ADDRESS}
    values["zip_code"] = str(told.get("zip_code") or told.get("zip") or "")
    return values


def address_of_visit(visit: Appointment) -> dict[str, str]:
    told = visit.said("address")
    return {
        "first_line": visit.first_line,
        "second_line": visit.second_line,
        "city": visit.city,
        "state": visit.state,
        "zip_code": visit.zip_code,
        "access_notes": str(told.get("access_notes") or ""),
    }


def _words(error: errors.ServiceError) -> str:
    if isinstance(error, errors.NotEnabled) or (error.status == 503 and "/psc/" in error.route):
        return NOT_ENABLED if isinstance(error, errors.NotEnabled) else SLOW
    if isinstance(error, errors.Denied):
        return "The service does not allow this team to look up times."
    if isinstance(error, errors.Refused) and error.message:
        return f"The service refuses to look up times: {error.message[:300]}"
    return SLOW
