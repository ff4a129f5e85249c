"""Columns of the list of orders. Their macros are in `templates/orders/order_rows.html`."""

from __future__ import annotations

from typing import Any, Final

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell
from patients.search_keys import plain_key


def _first_name(row: Any) -> str:
    if row.by_name:
        return str(row.patient_first_name)
    parts = plain_key(row.patient_name or "").split()
    return " ".join(f"{part[0].upper()}." for part in parts)


def _status(row: Any) -> str:
    return vocabulary.order_term(row.low_level_status, row.method, ()).label


def _turn(row: Any) -> str:
    if row.done_text:
        return str(row.done_text)
    return vocabulary.order_term(row.low_level_status, row.method, (), row.bucket).actor_label


def _assignee_name(row: Any) -> str:
    assignment = row.assignment
    return assignment.user.get_full_name() if assignment else ""


def _term_label(name: str, field: str) -> Any:
    return lambda row: vocabulary.term(name, getattr(row, field)).label


COLUMNS: Final = (
    Column(
        "patient",
        "Patient",
        (
            ExportCell("Order", lambda row: row.pk),
            ExportCell("First name", _first_name),
            ExportCell("Last name", lambda row: row.patient_last_name if row.by_name else ""),
        ),
        sort="patient_name",
    ),
    Column(
        "born",
        "Born",
        (ExportCell("Born", lambda row: row.patient_dob),),
        needs="patients.view",
        cell_css="nowrap",
    ),
    Column(
        "status",
        "Status",
        (
            ExportCell("Status", _status),
            ExportCell("Status detail", _term_label("order.status_detail", "status_detail")),
        ),
        sort="last_status",
    ),
    Column("turn", "Turn", (ExportCell("Turn", _turn),), macro="next_actor"),
    Column(
        "test",
        "Test",
        (
            ExportCell("Test", lambda row: row.lab_test_name),
            ExportCell("Method", _term_label("order.method", "method")),
            ExportCell("Priority", lambda row: row.priority),
        ),
        cell_css="wide",
    ),
    Column(
        "ordered",
        "Ordered",
        (ExportCell("Ordered", lambda row: row.created_at, is_timestamp=True),),
        sort="created_at",
        cell_css="nowrap",
    ),
    Column(
        "changed",
        "Changed",
        (ExportCell("Changed", lambda row: row.updated_at, is_timestamp=True),),
        sort="updated_at",
        cell_css="nowrap",
    ),
    Column(
        "held",
        "Assigned to",
        (ExportCell("Assigned to", _assignee_name),),
        macro="assignee",
        cell_css="nowrap",
    ),
    Column("order", "Order", (), css="roomy", macro="order_id", cell_css="roomy"),
    Column(
        "result",
        "Result",
        (ExportCell("Result", _term_label("order.interpretation", "interpretation")),),
        needs="results.view",
        shown=False,
    ),
    Column("lab", "Lab", (ExportCell("Lab", lambda row: row.lab_name),), shown=False),
    Column(
        "quiet",
        "Over usual",
        (ExportCell("Over its usual time since", lambda row: row.over_since, is_timestamp=True),),
        sort="quiet_at",
        shown=False,
        macro="overdue",
        cell_css="nowrap",
    ),
    Column(
        "sample",
        "Sample",
        (ExportCell("Sample", lambda row: row.sample_id),),
        shown=False,
    ),
    Column(
        "goes_out",
        "Goes out on",
        (ExportCell("Goes out on", lambda row: row.activate_by),),
        shown=False,
        macro="ships_on",
        cell_css="nowrap",
    ),
    Column(
        "transaction",
        "Transaction",
        (ExportCell("Transaction", lambda row: row.order_transaction_id),),
        shown=False,
    ),
)
