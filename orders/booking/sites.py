"""Lookups near a patient: providers that draw at home, and service centers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.utils.translation import gettext, gettext_noop

from backoffice.core.service_client import service
from backoffice.service import Service, areas, errors
from labs.models import Lab
from orders.booking.forms import ADDRESS, MAX_SITES, CenterForm, HomeForm
from orders.models import Appointment, Order
from orders.rules import appointment_rules
from orders.rules.slots import (
    AppointmentPlace,
    SiteTimes,
    TimeFilters,
    TimeList,
    build_time_list,
    fetch_times,
    find_again,
    is_listed,
)

SECONDS: Final = 5.0
"""Most seconds that a person waits for all lookups of one page."""
NEAR: Final = "25"
"""Default radius around a ZIP code, in miles."""
WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
WITH_LAB: Final = "appointment_scheduling_with_lab"
SLOW: Final = gettext_noop(
    "The lab service is not responding. Nothing was booked or changed. Try again in a moment."
)
NOT_ENABLED: Final = gettext_noop(
    "Booking at service centers is not enabled for this clinic. Ask the lab service to enable it "
    "for this lab. Until then, the patient can walk in or book with the lab."
)


@dataclass(slots=True)
class NearbySite:
    """A service center near the patient."""

    site: areas.Site
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
        """Return the days with their hours; empty if staff must ask the lab."""
        hours = self.site.metadata.hours
        if not isinstance(hours, dict):
            return []
        days = [day for day in WEEK if hours.get(day)]
        days += [str(day) for day in hours if day not in WEEK and hours[day]]
        return [(day.capitalize(), str(hours[day])) for day in days]


@dataclass(slots=True)
class PickerData:
    """The lookups for one page."""

    offer: TimeList | None = None
    trouble: str = ""
    """Why there are no times, marked for translation."""
    sites: list[NearbySite] = field(default_factory=list)
    far_sites: list[str] = field(default_factory=list)
    """Codes of centers that the person chose near another ZIP code. They apply again near that ZIP
    code.
    """
    requests: list[str] = field(default_factory=list)
    """Providers that call the patient to agree on a time."""
    unserved: str = ""
    """The ZIP code, if no provider draws at home there."""
    nearby: list[tuple[str, int]] = field(default_factory=list)
    """Labs with their number of centers near an address where no provider draws at home."""
    block: Appointment | None = None
    """The patient's appointment with the same provider, for another order."""


class _SharedDeadline:
    """Calls that share one time limit."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + SECONDS

    def __call__(self) -> Service:
        return service().within(max(self._ends - time.monotonic(), 0.1))


def load_home_times(form: HomeForm, order: Order, visit: Appointment | None) -> PickerData:
    """Look up times at the address of the form, and providers that would call the patient."""
    picker_data = PickerData()
    address = form.address()
    if address is None:
        picker_data.trouble = gettext_noop("The address is incomplete. Complete it to see times.")
        return picker_data
    deadline = _SharedDeadline()
    try:
        if visit is None:
            ready = _load_providers(picker_data, deadline(), address.zip_code[:5])
            picker_data.block = appointment_rules.conflicting_appointment(
                order, [*ready, *picker_data.requests]
            )
            if not ready or picker_data.block is not None:
                return picker_data
        picker_data.offer = _offer(
            deadline, AppointmentPlace(address=address), form.time_filters(), visit
        )
    except errors.ServiceError as error:
        picker_data.trouble = _words(error)
    return picker_data


def _offer(
    deadline: Callable[[], Service],
    place: AppointmentPlace,
    time_filters: TimeFilters,
    visit: Appointment | None,
) -> TimeList:
    """Return the times at a place.

    A chosen time on another day or at another center is looked up separately. It stays chosen as
    long as it can be booked.
    """
    times = fetch_times(deadline(), place, time_filters.start_date)
    chosen = time_filters.chosen
    apart = None
    if chosen is not None and not is_listed(times, chosen):
        apart = find_again(deadline(), place, chosen)
    state = place.address.state if place.address else ""
    return build_time_list(
        times,
        time_filters,
        current_start=visit.start_at if visit else None,
        current_zone=visit.visit_zone if visit else None,
        apart=apart,
        state=state,
    )


def _load_providers(picker_data: PickerData, calls: Service, zip_code: str) -> list[str]:
    """Return providers with times to book.

    Add the other providers and the alternatives to `picker_data`.
    """
    area = calls.appointments.area_info(zip_code).data
    ready = []
    for provider in area.phlebotomy.providers:
        if "appointment-ready" in provider.service_types:
            ready.append(provider.name)
        elif "appointment-request" in provider.service_types:
            picker_data.requests.append(provider.name)
    if not ready and not picker_data.requests:
        picker_data.unserved = zip_code
        names = Lab.names()
        picker_data.nearby = [
            (names.get(slug, slug), lab.within_radius)
            for slug, lab in area.central_labs.items()
            if lab.within_radius
        ]
    return ready


def load_center_times(form: CenterForm, order: Order, visit: Appointment | None) -> PickerData:
    """Look up centers of the order's lab near a ZIP code, and the times at up to three of them."""
    picker_data = PickerData()
    deadline = _SharedDeadline()
    try:
        sites = _nearby_sites(
            deadline(),
            order,
            form.current_value("zip_code") or "",
            form.current_value("radius") or NEAR,
        )
        picker_data.sites = [NearbySite(site) for site in sites]
        chosen_sites = [
            *(form.current_value("sites") or []),
            *(form.current_value("far_sites") or []),
        ]
        shown_codes = _sites_to_show(picker_data.sites, chosen_sites, visit)
        codes = {near.code for near in picker_data.sites}
        picker_data.far_sites = [code for code in dict.fromkeys(chosen_sites) if code not in codes]
        for near in picker_data.sites:
            near.chosen = near.code in shown_codes
        if not shown_codes:
            return picker_data
        place = AppointmentPlace(lab=order_lab_slug(order), sites=tuple(shown_codes))
        picker_data.offer = _offer(deadline, place, form.time_filters(), visit)
        miles = {near.code: near.site.distance for near in picker_data.sites}
        for day in picker_data.offer.days:
            day.groups = sort_groups(day.groups, shown_codes)
            for group in day.groups:
                group.distance = miles.get(group.site)
    except errors.ServiceError as error:
        picker_data.trouble = _words(error)
    return picker_data


def order_lab_slug(order: Order) -> str:
    """Return the lab of the order, else the lab of its test's markers; empty if there are several.

    A test need not name a lab ("lab | Lab or null", catalogue.md 2).
    """
    if order.lab_slug:
        return order.lab_slug
    labs = Lab.objects.filter(markers__in_tests__lab_test=order.lab_test_id)
    slugs = set(labs.values_list("slug", flat=True))
    return slugs.pop() if len(slugs) == 1 else ""


def sort_groups(groups: Iterable[SiteTimes], codes: Sequence[str]) -> list[SiteTimes]:
    """Sort groups by the order of the requested centers.

    Times at another center, or without a center, are last (appointments.md 2).
    """
    places = {code: place for place, code in enumerate(codes)}
    return sorted(groups, key=lambda group: places.get(group.site, len(places)))


def _nearby_sites(calls: Service, order: Order, zip_code: str, radius: str) -> Sequence[areas.Site]:
    lab = Lab.objects.filter(slug=order_lab_slug(order)).only("pk").first()
    if not zip_code or lab is None or zip_code == order_address(order)["zip_code"][:5]:
        answer = calls.appointments.order_psc_info(order.pk, radius)
    else:
        answer = calls.appointments.psc_info(zip_code, lab.pk, radius)
    return answer.data.patient_service_centers


def _sites_to_show(
    sites: list[NearbySite], chosen_sites: list[str], visit: Appointment | None
) -> list[str]:
    """Return the requested sites that are near, else the site of the appointment.

    Without either, return the nearest site that can be booked here.
    """
    bookable = [near.code for near in sites if near.site.bookable]
    if shown_codes := [code for code in chosen_sites if code in bookable]:
        return shown_codes[:MAX_SITES]
    if visit is not None:
        shown_codes = [
            near.code
            for near in sites
            if near.code in bookable and _is_appointment_site(near, visit)
        ]
        if shown_codes:
            return shown_codes[:1]
    return bookable[:MAX_SITES]


def _is_appointment_site(near: NearbySite, visit: Appointment) -> bool:
    """Whether the appointment is at this center.

    The addresses are compared, because `provider_id` is the site's code for some providers only.
    """
    if visit.provider_id == near.code:
        return True
    place = near.site.metadata
    return place is not None and _folded(place.first_line, place.zip_code) == _folded(
        visit.first_line, visit.zip_code
    )


def _folded(first_line: str | None, zip_code: str | None) -> tuple[str, str]:
    return " ".join((first_line or "").split()).casefold(), (zip_code or "")[:5]


def order_address(order: Order) -> dict[str, str]:
    """Return the patient's address on the order, as form values."""
    record = order.record_at("patient_address") or order.record_at("shipping_details")
    values = {name: str(record.get(name) or "") for name in ADDRESS}
    values["zip_code"] = str(record.get("zip_code") or record.get("zip") or "")
    return values


def visit_address(visit: Appointment) -> dict[str, str]:
    record = visit.record_at("address")
    return {
        "first_line": visit.first_line,
        "second_line": visit.second_line,
        "city": visit.city,
        "state": visit.state,
        "zip_code": visit.zip_code,
        "access_notes": str(record.get("access_notes") or ""),
    }


def _words(error: errors.ServiceError) -> str:
    if isinstance(error, errors.NotEnabled) or (error.status == 503 and "/psc/" in error.route):
        return NOT_ENABLED if isinstance(error, errors.NotEnabled) else SLOW
    if isinstance(error, errors.Denied):
        return gettext_noop("The lab service does not allow this clinic to look up times.")
    if isinstance(error, errors.Refused) and error.message:
        return gettext("The lab service could not look up times: %(reason)s") % {
            "reason": error.message[:300]
        }
    return SLOW
