"""The list of orders without a visit: those to book, and those whose visit was called off."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.pages.formats import initials
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet
from orders.appointment_list.filters import UnbookedOrderFilterSet
from orders.appointment_list.rows import UnbookedOrder, unbooked_orders
from orders.appointment_list.tabs import appointment_tabs
from orders.models import Order
from orders.rules.appointment_rules import CENTER, HOME

ROW_COLUMNS: Final = (
    *("id", "user_id", "created_at", "last_event_at", "low_level_status", "bucket", "method"),
    *("lab_test_name", "patient_first_name", "patient_last_name", "patient_name", "patient_dob"),
    "priority",
)


def _patient(row: UnbookedOrder) -> str:
    order = row.order
    return order.patient_full_name if row.by_name else initials(order.patient_name)


def _status(row: UnbookedOrder) -> str:
    term = vocabulary.order_term(row.order.low_level_status, row.order.method, ())
    return gettext(term.label)


def _method(row: UnbookedOrder) -> str:
    return gettext(vocabulary.term("order.method", row.order.method).label)


COLUMNS: Final = (
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(gettext_noop("Order"), lambda row: row.order.pk),
            ExportCell(gettext_noop("Patient"), _patient),
            ExportCell(
                gettext_noop("Born"), lambda row: row.order.patient_dob if row.by_name else None
            ),
        ),
    ),
    Column(
        "ordered",
        gettext_noop("Ordered"),
        (
            ExportCell(
                gettext_noop("Ordered"), lambda row: row.order.created_at, is_timestamp=True
            ),
            ExportCell(
                gettext_noop("Last update"), lambda row: row.order.last_event_at, is_timestamp=True
            ),
        ),
        sort="ordered",
    ),
    Column("status", gettext_noop("Status"), (ExportCell(gettext_noop("Status"), _status),)),
    Column(
        "test",
        gettext_noop("Test"),
        (
            ExportCell(gettext_noop("Test"), lambda row: row.order.lab_test_name),
            ExportCell(gettext_noop("Method"), _method),
            ExportCell(gettext_noop("Priority"), lambda row: row.order.priority),
        ),
    ),
    Column(
        "last_visit",
        gettext_noop("Last visit"),
        (
            ExportCell(gettext_noop("Last visit"), lambda row: row.last_start, is_timestamp=True),
            ExportCell(gettext_noop("Provider"), lambda row: row.last_provider),
        ),
    ),
    Column("actions", gettext_noop("Actions"), cell_css="tight end"),
)


@dataclass(frozen=True, slots=True)
class UnbookedRowContext:
    """What the rows show to a user."""

    may_book: bool
    today: date


class UnbookedOrderList(ListPage):
    name = "unbooked"
    title = gettext_noop("Appointments")
    template = "appointments/unbooked_list.html"
    subject = "order"
    nouns = (gettext_noop("order"), gettext_noop("orders"))
    patient_column = "user_id"
    needs = ("appointments.view", "orders.view")
    columns = COLUMNS
    row_macros = "appointments/unbooked_rows.html"
    filter_set = UnbookedOrderFilterSet
    presets: ClassVar = (
        Preset("home", gettext_noop("At home"), {"type": [HOME]}),
        Preset("center", gettext_noop("Service center"), {"type": [CENTER]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[Order]:
        return Order.objects.only(*ROW_COLUMNS)

    def with_related(self, rows: list[Order], user: Any) -> list[UnbookedOrder]:
        return unbooked_orders(rows, by_name=may(user, "patients.view"))

    def row_context(self, user: Any, column_keys: Set[str]) -> UnbookedRowContext:
        may_book = may(user, "appointments.change", "patients.view", "orders.view")
        return UnbookedRowContext(may_book, timezone.localdate())

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        values = filters.form.cleaned_data
        return {
            "tabs": appointment_tabs(filters),
            "tab": filters.form.tab,
            "is_walk_in": values.get("type") == [CENTER],
        }


UNBOOKED_LIST: Final = UnbookedOrderList()
