"""The list of visits: its columns, tabs and download."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.pages.formats import initials
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet
from orders.appointment_list.filters import AppointmentListFilterSet
from orders.appointment_list.rows import AppointmentRow, appointment_rows, row_actions
from orders.appointment_list.tabs import appointment_tabs
from orders.models import Appointment


def _start(row: AppointmentRow) -> str:
    """Return the start in the zone of the draw: as sent, else of its state, else UTC."""
    start: datetime | None = row.appointment.start_at
    if start is None:
        return ""
    return start.astimezone(row.appointment.visit_zone.zone).isoformat(timespec="minutes")


def _field(name: str) -> Any:
    return lambda row: getattr(row.appointment, name)


def _term_label(name: str) -> Any:
    return lambda row: gettext(vocabulary.term(f"appointment.{name}", _field(name)(row)).label)


def _place(name: str) -> Any:
    return lambda row: getattr(row.appointment, name) if row.place else ""


COLUMNS: Final = (
    Column(
        "time",
        gettext_noop("Draw time"),
        (
            ExportCell(gettext_noop("Visit"), _field("pk")),
            ExportCell(gettext_noop("Draw time"), _start),
            ExportCell(gettext_noop("Draw time zone"), lambda row: row.appointment.visit_zone.name),
            ExportCell(
                gettext_noop("Draw time zone is"),
                lambda row: row.appointment.visit_zone.basis_label,
            ),
            ExportCell(gettext_noop("Your time"), _field("start_at"), is_timestamp=True),
        ),
        sort="time",
        cell_css="nowrap",
    ),
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(
                gettext_noop("Patient"),
                lambda row: row.name if row.by_name else initials(row.name),
            ),
            ExportCell(gettext_noop("Born"), lambda row: row.born if row.by_name else None),
        ),
    ),
    Column(
        "status",
        gettext_noop("Status"),
        (ExportCell(gettext_noop("Status"), _term_label("status")),),
    ),
    Column("type", gettext_noop("Type"), (ExportCell(gettext_noop("Type"), _term_label("type")),)),
    Column(
        "provider",
        gettext_noop("Provider"),
        (
            ExportCell(gettext_noop("Provider"), _field("provider")),
            ExportCell(gettext_noop("Site"), lambda row: row.site),
        ),
    ),
    Column(
        "place",
        gettext_noop("Place"),
        (
            ExportCell(gettext_noop("City"), _place("city")),
            ExportCell(gettext_noop("State"), _place("state")),
        ),
    ),
    Column(
        "test",
        gettext_noop("Test"),
        (
            ExportCell(
                gettext_noop("Test"), lambda row: row.order.lab_test_name if row.order else ""
            ),
            ExportCell(gettext_noop("Order"), _field("order_id")),
            ExportCell(gettext_noop("Lab visit number"), _field("external_id")),
        ),
    ),
    Column(
        "changed",
        gettext_noop("Changed"),
        (ExportCell(gettext_noop("Changed"), _field("as_of"), is_timestamp=True),),
        shown=False,
        cell_css="nowrap",
    ),
    Column("actions", gettext_noop("Actions"), cell_css="tight end"),
)


@dataclass(frozen=True, slots=True)
class AppointmentRowContext:
    """What the rows of visits show to a user."""

    user: Any
    today: date

    def actions(self, row: AppointmentRow) -> dict[str, Any]:
        return row_actions(row, self.user)


class AppointmentList(ListPage):
    name = "appointments"
    title = gettext_noop("Appointments")
    template = "appointments/list.html"
    subject = "appointment"
    nouns = (gettext_noop("appointment"), gettext_noop("appointments"))
    patient_column = "user_id"
    needs = ("appointments.view",)
    columns = COLUMNS
    row_macros = "appointments/appointment_rows.html"
    filter_set = AppointmentListFilterSet
    presets: ClassVar = (
        Preset("mine", gettext_noop("Mine"), {"mine": ["1"]}, needs="notes.write"),
    )

    def visible_rows(self, user: Any) -> QuerySet[Appointment]:
        return Appointment.objects.filter(superseded_at=None).defer("record", "content_hash")

    def with_related(self, rows: list[Appointment], user: Any) -> list[AppointmentRow]:
        return appointment_rows(rows, by_name=may(user, "patients.view"))

    def row_context(self, user: Any, column_keys: Set[str]) -> AppointmentRowContext:
        return AppointmentRowContext(user, timezone.localdate())

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        return {
            "tabs": appointment_tabs(filters),
            "tab": filters.form.tab,
        }


APPOINTMENT_LIST: Final = AppointmentList()
