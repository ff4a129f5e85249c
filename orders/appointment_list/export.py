"""The columns of the CSV export of visits."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.pages import Sort
from orders.appointment_list.rows import AppointmentRow, appointment_rows
from orders.models import Appointment


def _start(visit: AppointmentRow) -> str:
    """Return the start in the zone of the draw: as sent, else of its state, else UTC."""
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
        ExportCell("Visit", _field("pk")),
        ExportCell("Time at the draw", _start),
        ExportCell("Zone of the draw", lambda visit: visit.appointment.visit_zone.name),
        ExportCell("Zone is", lambda visit: visit.appointment.visit_zone.basis.value),
        ExportCell("Your time", _field("start_at"), is_timestamp=True),
    ),
)
WHO: Final = Column(
    "who",
    "Who",
    (ExportCell("Patient", lambda visit: visit.name), ExportCell("Born", lambda visit: visit.born)),
)
WHAT: Final = Column(
    "what",
    "What",
    (
        ExportCell("Status", _term_label("status")),
        ExportCell("Type", _term_label("type")),
        ExportCell("Provider", _field("provider")),
        ExportCell("Test", lambda visit: visit.order.lab_test_name if visit.order else ""),
        ExportCell("Order", _field("order_id")),
    ),
)
WHERE: Final = Column(
    "where", "Where", (ExportCell("City", _field("city")), ExportCell("State", _field("state")))
)


class AppointmentExport(ListPage):
    """Export of the visits of one tab, in the order of the tab."""

    name = "appointments"
    subject = "appointment"
    nouns = ("appointment", "appointments")
    needs = ("appointments.view",)
    columns = (WHEN, WHO, WHAT, WHERE)

    def __init__(self, sort: Sort) -> None:
        self.sort = sort

    def sort_for(self, filters: ListFilterSet) -> Sort:
        return self.sort

    def with_related(self, rows: list[Appointment], user: Any) -> list[AppointmentRow]:
        return appointment_rows(rows)

    def patient_id_of(self, row: Appointment) -> UUID | None:
        return row.user_id
