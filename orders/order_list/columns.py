"""Columns of the list of orders. Their macros are in `templates/orders/order_rows.html`."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell
from patients.search_keys import plain_key


def _first_name(row: Any) -> str:
    if row.by_name:
        return str(row.patient_first_name)
    parts = plain_key(row.patient_name or "").split()
    return " ".join(f"{part[0].upper()}." for part in parts)


def _status(row: Any) -> str:
    return gettext(vocabulary.order_term(row.low_level_status, row.method, ()).label)


def _turn(row: Any) -> str:
    if row.done_text:
        return gettext(row.done_text)
    term = vocabulary.order_term(row.low_level_status, row.method, (), row.bucket)
    return gettext(term.actor_label)


def _assignee_name(row: Any) -> str:
    assignment = row.assignment
    return assignment.user.get_full_name() if assignment else ""


def _term_label(name: str, field: str) -> Any:
    return lambda row: gettext(vocabulary.term(name, getattr(row, field)).label)


COLUMNS: Final = (
    Column(
        "patient",
        gettext_noop("Patient"),
        (
            ExportCell(gettext_noop("Order"), lambda row: row.pk),
            ExportCell(gettext_noop("First name"), _first_name),
            ExportCell(
                gettext_noop("Last name"), lambda row: row.patient_last_name if row.by_name else ""
            ),
        ),
        sort="patient_name",
    ),
    Column(
        "born",
        gettext_noop("Born"),
        (ExportCell(gettext_noop("Born"), lambda row: row.patient_dob),),
        needs="patients.view",
        cell_css="nowrap",
    ),
    Column(
        "status",
        gettext_noop("Status"),
        (
            ExportCell(gettext_noop("Status"), _status),
            ExportCell(
                gettext_noop("Status detail"), _term_label("order.status_detail", "status_detail")
            ),
        ),
        sort="last_status",
    ),
    Column(
        "turn",
        gettext_noop("Waiting on"),
        (ExportCell(gettext_noop("Waiting on"), _turn),),
        macro="next_actor",
    ),
    Column(
        "test",
        gettext_noop("Test"),
        (
            ExportCell(gettext_noop("Test"), lambda row: row.lab_test_name),
            ExportCell(gettext_noop("Method"), _term_label("order.method", "method")),
            ExportCell(gettext_noop("Priority"), lambda row: row.priority),
        ),
        cell_css="wide",
    ),
    Column(
        "ordered",
        gettext_noop("Ordered"),
        (ExportCell(gettext_noop("Ordered"), lambda row: row.created_at, is_timestamp=True),),
        sort="created_at",
        cell_css="nowrap",
    ),
    Column(
        "changed",
        gettext_noop("Changed"),
        (ExportCell(gettext_noop("Changed"), lambda row: row.updated_at, is_timestamp=True),),
        sort="updated_at",
        cell_css="nowrap",
    ),
    Column(
        "held",
        gettext_noop("Assigned to"),
        (ExportCell(gettext_noop("Assigned to"), _assignee_name),),
        macro="assignee",
        cell_css="nowrap",
    ),
    Column("order", gettext_noop("Order"), (), css="roomy", macro="order_id", cell_css="roomy"),
    Column(
        "result",
        gettext_noop("Result"),
        (
            ExportCell(
                gettext_noop("Result"), _term_label("order.interpretation", "interpretation")
            ),
        ),
        needs="results.view",
        shown=False,
    ),
    Column(
        "lab",
        gettext_noop("Lab"),
        (ExportCell(gettext_noop("Lab"), lambda row: row.lab_name),),
        shown=False,
    ),
    Column(
        "quiet",
        gettext_noop("Overdue since"),
        (ExportCell(gettext_noop("Overdue since"), lambda row: row.over_since, is_timestamp=True),),
        sort="quiet_at",
        shown=False,
        macro="overdue",
        cell_css="nowrap",
    ),
    Column(
        "sample",
        gettext_noop("Sample"),
        (ExportCell(gettext_noop("Sample"), lambda row: row.sample_id),),
        shown=False,
    ),
    Column(
        "goes_out",
        gettext_noop("Release date"),
        (ExportCell(gettext_noop("Release date"), lambda row: row.activate_by),),
        shown=False,
        macro="ships_on",
        cell_css="nowrap",
    ),
    Column(
        "transaction",
        gettext_noop("Transaction"),
        (ExportCell(gettext_noop("Transaction"), lambda row: row.order_transaction_id),),
        shown=False,
    ),
)
