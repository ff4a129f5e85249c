"""The columns of the CSV export of visits."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Cell, Column, Listing
from backoffice.pages.lists.forms import FilterForm
from backoffice.pages.paging.pages import Sort
from orders.appointments.rows import AppointmentRow, appointment_rows
from orders.models import Appointment


def _start(visit: AppointmentRow) -> str:
    """Return the start in the zone of the draw: as given, else of its state, else UTC."""
    start: datetime | None = visit.appointment.start_at
    if start is None:
        return ""
    return start.astimezone(visit.appointment.visit_zone.zone).isoformat(timespec="minutes")


def _field(name: str) -> Any:
    return lambda visit: getattr(visit.appointment, name)


def _term_label(name: str) -> Any:
    return lambda visit: vocabulary.term(f"appointment.{name}", _field(name)(visit)).label


WHEN: Final = Column(
    "when",
    "When",
    (
        Cell("Visit", _field("pk")),
        Cell("Time at the draw", _start),
        Cell("Zone of the draw", lambda visit: visit.appointment.visit_zone.name),
        Cell("Zone is", lambda visit: visit.appointment.visit_zone.basis.value),
        Cell("Your time", _field("start_at"), timed=True),
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
        Cell("Status", _term_label("status")),
        Cell("Type", _term_label("type")),
        Cell("Provider", _field("provider")),
        Cell("Test", lambda visit: visit.order.lab_test_name if visit.order else ""),
        Cell("Order", _field("order_id")),
    ),
)
WHERE: Final = Column(
    "where", "Where", (Cell("City", _field("city")), Cell("State", _field("state")))
)


class AppointmentExport(Listing):
    """Export of the visits of one tab, in the order of the tab."""

    name = "appointments"
    subject = "appointment"
    nouns = ("appointment", "appointments")
    needs = ("appointments.view",)
    columns = (WHEN, WHO, WHAT, WHERE)

    def __init__(self, sort: Sort) -> None:
        self.sort = sort

    def sort_of(self, form: FilterForm) -> Sort:
        return self.sort

    def dressed(self, rows: list[Appointment], user: Any) -> list[AppointmentRow]:
        return appointment_rows(rows)

    def patient_of(self, row: Appointment) -> UUID | None:
        return row.user_id
