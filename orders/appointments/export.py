"""The list of visits as a CSV file."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from backoffice.core import vocabulary
from backoffice.core.access import may, requires
from backoffice.models import User
from backoffice.pages.lists.definition import Cell, Column, Listing
from backoffice.pages.lists.export import download
from backoffice.pages.lists.forms import FilterForm
from backoffice.pages.paging.pages import Sort
from orders.appointments.forms import TABS, AppointmentFilters
from orders.appointments.rows import Visit, visits
from orders.models import Appointment


def _start(visit: Visit) -> str:
    """In the zone of the draw: that of its state, or UTC, where none was given."""
    start: datetime | None = visit.appointment.start_at
    if start is None:
        return ""
    return start.astimezone(visit.appointment.visit_zone.zone).isoformat(timespec="minutes")


def _of(name: str) -> Any:
    return lambda visit: getattr(visit.appointment, name)


def _words(name: str) -> Any:
    return lambda visit: vocabulary.term(f"appointment.{name}", _of(name)(visit)).label


WHEN: Final = Column(
    "when",
    "When",
    (
        Cell("Visit", _of("pk")),
        Cell("Time at the draw", _start),
        Cell("Zone of the draw", lambda visit: visit.appointment.visit_zone.name),
        Cell("Zone is", lambda visit: visit.appointment.visit_zone.basis.value),
        Cell("Your time", _of("start_at"), timed=True),
    ),
)
WHO: Final = Column(
    "who",
    "Who",
    (Cell("Patient", lambda visit: visit.name), Cell("Born", lambda visit: visit.born)),
)
WHAT: Final = Column(
    "what",
    "What",
    (
        Cell("Status", _words("status")),
        Cell("Type", _words("type")),
        Cell("Provider", _of("provider")),
        Cell("Test", lambda visit: visit.order.lab_test_name if visit.order else ""),
        Cell("Order", _of("order_id")),
    ),
)
WHERE: Final = Column("where", "Where", (Cell("City", _of("city")), Cell("State", _of("state"))))


class Appointments(Listing):
    """Visits of one tab, in its order."""

    name = "appointments"
    subject = "appointment"
    nouns = ("appointment", "appointments")
    needs = ("appointments.view",)
    columns = (WHEN, WHO, WHAT, WHERE)

    def __init__(self, sort: Sort) -> None:
        self.sort = sort

    def sort_of(self, form: FilterForm) -> Sort:
        return self.sort

    def dressed(self, rows: list[Appointment], user: Any) -> list[Visit]:
        return visits(rows)

    def patient_of(self, row: Appointment) -> UUID | None:
        return row.user_id


@requires("appointments.view", "lists.export")
@require_POST
def export(request: HttpRequest) -> HttpResponseBase:
    """What a tab shows with its filters. A home draw is where the patient lives: without names,
    no place either."""
    data = QueryDict(request.POST.get("query", "").lstrip("?").replace("\x00", "")[:4_000])
    by_name = may(request.user, "patients.view")
    form = AppointmentFilters(data, by_name=by_name, user=cast(User, request.user))
    tab = data.get("show", "upcoming")
    if tab not in TABS or not form.is_valid():
        messages.error(request, "This tab, or these filters, cannot be downloaded.")
        return redirect("appointments:list")
    rows = form.apply(Appointment.objects.defer("record", "content_hash"))
    shown = form.shown(rows, tab, timezone.now())
    columns = (WHEN, WHO, WHAT, WHERE) if by_name else (WHEN, WHAT)
    listing = Appointments(TABS[tab][1])
    return download(request, listing, FilterForm(), shown, columns, bom="bom" in request.POST)
