"""The list of appointments over all patients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice import audit, vocabulary
from backoffice.access import may, requires
from backoffice.paging import capped_count, page_of, place_of
from orders.appointments_forms import TABS, AppointmentFilters
from orders.models import Appointment, Order
from patients.models import Demographics

SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class Visit:
    """One row: the appointment, who it is for, and how its clocks relate."""

    appointment: Appointment
    order: Order | None
    name: str
    born: date | None
    day: date | None
    """Day of the visit in the staff member's zone."""
    two_clocks: bool
    """The draw's clock and the staff member's differ at that moment."""
    disagrees: bool
    """`status` and `event_status` do not say the same."""


@requires("appointments.view")
@require_safe
def appointments(request: HttpRequest) -> HttpResponse:
    """By day, in the draw's zone with the staff member's clock beside it."""
    now = timezone.now()
    by_name = may(request.user, "patients.view")
    form = AppointmentFilters(request.GET, by_name=by_name)
    status = 200 if form.is_valid() else 400
    tab = request.GET.get("show", "upcoming")
    tab = tab if tab in TABS else "upcoming"
    rows = form.apply(Appointment.objects.defer("record"))
    if status == 400:
        rows = rows.none()
    page = page_of(
        form.shown(rows, tab, now),
        TABS[tab][1],
        size=SIZE,
        **place_of(request),
    )
    counts = {name: capped_count(form.shown(rows, name, now)) for name in TABS}
    audit.listed(
        request,
        "appointment",
        (row.pk for row in page.rows),
        (row.user_id for row in page.rows),
    )
    context = {
        "form": form,
        "tab": tab,
        "tabs": [(name, TABS[name][0], counts[name]) for name in TABS],
        "page": page,
        "total": counts[tab],
        "visits": visits(page.rows),
        "sees_names": by_name,
        "chips": form.chips(),
        "today": timezone.localdate(now),
        "zone": timezone.get_current_timezone_name(),
    }
    return render(request, "appointments/list.html", context, status=status)


def visits(rows: Iterable[Appointment]) -> list[Visit]:
    """The rows with their patients and orders: two queries, whatever their number."""
    found = list(rows)
    orders = {
        order.pk: order
        for order in Order.objects.filter(pk__in={row.order_id for row in found}).only(
            "lab_test_name", "patient_first_name", "patient_last_name", "patient_dob"
        )
    }
    people = {
        person.pk: person
        for person in Demographics.objects.filter(pk__in={row.user_id for row in found}).only(
            "first_name", "last_name", "dob"
        )
    }
    return [
        _visit(row, orders.get(row.order_id) if row.order_id else None, people) for row in found
    ]


def _visit(row: Appointment, order: Order | None, people: dict[UUID, Demographics]) -> Visit:
    person = people.get(row.user_id) if row.user_id else None
    name, born = "", None
    if person is not None:
        name, born = f"{person.first_name} {person.last_name}", person.dob
    elif order is not None:
        name = f"{order.patient_first_name} {order.patient_last_name}"
        born = order.patient_dob
    local = timezone.localtime(row.start_at) if row.start_at else None
    return Visit(
        appointment=row,
        order=order,
        name=name.strip(),
        born=born,
        day=local.date() if local else None,
        two_clocks=local is not None and _differs(local, row.iana_timezone),
        disagrees=_label("status", row.status) != _label("event_status", row.event_status),
    )


def _label(name: str, value: str) -> str:
    return vocabulary.term(f"appointment.{name}", value).label


def _differs(local: datetime, zone: str | None) -> bool:
    try:
        return (
            bool(zone) and local.astimezone(ZoneInfo(zone or "")).utcoffset() != local.utcoffset()
        )
    except (LookupError, ValueError, OSError):
        return False
