"""Render the rows of the list of orders, with one function for each column.

This is Python and not a template, because fifty rows of ten columns are most of the cost of the
page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from html import escape
from typing import Any, Final

from django.utils import timezone
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.core.urls import record_url
from backoffice.pages.icons import icon_svg
from backoffice.pages.lists.context import ListContext
from backoffice.pages.templatetags.ui import (
    DASH,
    age,
    badge,
    day,
    initials,
    or_dash,
    order_badge,
    short_day,
    short_id,
    since,
    words,
)
from orders.models import Order
from orders.next_actor import whose_turn

_PRINTER: Final = icon_svg("printer")
FLAGGED_INTERPRETATIONS: Final = ("critical", "abnormal", "unknown")
SHOWN_ORIGINS: Final = ("redraw", "recreation")


@dataclass(frozen=True, slots=True)
class OrderRowContext:
    """The values that are the same for all rows of a page."""

    by_name: bool
    sees_results: bool
    beside_result: bool
    """Whether the interpretation is shown beside the status, because its own column is hidden."""
    zone: tzinfo
    now: datetime
    today: date


def render_rows(rows: list[Any], screen: ListContext) -> SafeString:
    """Render the rows of one page in the columns that the user has chosen."""
    by_name, sees_results = screen.form.by_name, may(screen.user, "results.view")
    now = timezone.now()
    shared = OrderRowContext(
        by_name,
        sees_results,
        sees_results and "result" not in screen.column_keys,
        timezone.get_current_timezone(),
        now,
        timezone.localdate(now),
    )
    cells = [CELLS[column.key] for column in screen.columns]
    tick = _checkbox if screen.bulk_actions else _no_checkbox
    rows_html = []
    for row in rows:
        row.name_html = f"{escape(row.patient_first_name)} {escape(row.patient_last_name)}"
        flagged = sees_results and row.interpretation == "critical"
        rows_html.append('<tr data-flag="critical">\n' if flagged else "<tr>\n")
        rows_html.append(tick(row, shared))
        rows_html += [cell(row, shared) for cell in cells]
        rows_html.append("</tr>\n")
    return SafeString("".join(rows_html))


def patient_label(order: Order) -> str:
    """Return the patient's name, or "No patient" and the test, as for an unregistered kit."""
    name = f"{order.patient_first_name} {order.patient_last_name}".strip()
    return name or ", ".join(filter(None, ("No patient", order.lab_test_name)))


def _no_checkbox(row: Any, shared: OrderRowContext) -> str:
    return ""


def _checkbox(row: Any, shared: OrderRowContext) -> str:
    key = str(row.pk)
    named = shared.by_name and row.name_html.strip()
    subject = f"of {row.name_html}" if named else f"{key[:8]}…"
    return (
        f'<td class="mark-cell"><input type="checkbox" name="key" value="{key}" form="bulk"'
        f' data-pick aria-label="Tick the order {subject}"></td>\n'
    )


def _documents(row: Any) -> str:
    """Render the link to the documents beside the name: the last columns may be off screen."""
    url = record_url("documents:order", row.pk)
    subject = row.name_html.strip()
    subject = (
        f" of the order of <bdi>{subject}</bdi>" if subject else f": {escape(patient_label(row))}"
    )
    return (
        f' <a class="btn quiet square beside-name" href="{url}" hx-boost="false" data-drawer'
        f' title="Documents">{_PRINTER}<span class="sr">Documents{subject}</span></a>'
    )


def _patient(row: Any, shared: OrderRowContext) -> str:
    name_html = " Kit without patient"
    if not shared.by_name:
        name_html = conditional_escape(initials(row.patient_name))
    elif row.patient_first_name or row.patient_last_name:
        name_html = f"<bdi>{row.name_html}</bdi>"
    url = record_url("orders:detail", row.pk)
    documents = _documents(row) if shared.by_name else ""
    link = f'<a href="{url}" hx-boost="false">{name_html}</a>'
    return f'<th scope="row" class="lead">{link}{documents}</th>\n'


def _born(row: Any, shared: OrderRowContext) -> str:
    years = ""
    if row.patient_dob:
        years = f' <span class="muted roomy">{age(row.patient_dob, shared.today)}</span>'
    return f'<td data-label="Born" class="nowrap">{day(row.patient_dob)}{years}</td>\n'


def _status(row: Any, shared: OrderRowContext) -> str:
    badges = order_badge(row.low_level_status, row.method, row.bucket)
    if shared.beside_result and row.interpretation in FLAGGED_INTERPRETATIONS:
        badges += badge("order.interpretation", row.interpretation)
    detail = ""
    if row.status_detail:
        detail_html = conditional_escape(words("order.status_detail", row.status_detail))
        detail = f'<span class="second">{detail_html}</span>'
    return f'<td data-label="Status"><span class="row">{badges}</span>{detail}</td>\n'


def _turn(row: Any, shared: OrderRowContext) -> str:
    note = f'<span class="muted nowrap">{row.done_text}</span>' if row.done_text else ""
    return f'<td data-label="Turn">{note or whose_turn(row, shared.now)}</td>\n'


def _test(row: Any, shared: OrderRowContext) -> str:
    chips = ' <span class="chip">Priority</span>' if row.priority else ""
    if row.origin in SHOWN_ORIGINS:
        origin = conditional_escape(words("order.origin", row.origin))
        chips += f' <span class="chip">{origin}</span>'
    method = or_dash(vocabulary.term("order.method", row.method).label)
    return (
        f'<td data-label="Test" class="wide">{or_dash(row.lab_test_name)}'
        f' <span class="muted nowrap">{method}</span>{chips}</td>\n'
    )


def _assignee(row: Any, shared: OrderRowContext) -> str:
    name_html: str = DASH
    if row.assignment:
        user = row.assignment.user
        short = escape(user.get_short_name() or user.get_username())
        name_html = f'<span title="{escape(user.get_full_name())}">{short}</span>'
    return f'<td data-label="Assigned to" class="nowrap">{name_html}</td>\n'


def _overdue(row: Any, shared: OrderRowContext) -> str:
    age = since(row.over_since, shared.now) if row.over_since else DASH
    return f'<td data-label="Over usual" class="nowrap">{age}</td>\n'


CELLS: Final[dict[str, Callable[[Any, OrderRowContext], str]]] = {
    "patient": _patient,
    "born": _born,
    "status": _status,
    "turn": _turn,
    "test": _test,
    "ordered": lambda row, shared: (
        f'<td data-label="Ordered" class="nowrap">{short_day(row.created_at, shared.zone)}</td>\n'
    ),
    "changed": lambda row, shared: (
        f'<td data-label="Changed" class="nowrap">{since(row.updated_at, shared.now)}</td>\n'
    ),
    "held": _assignee,
    "order": lambda row, _: f'<td data-label="Order" class="roomy">{short_id(row.pk)}</td>\n',
    "result": lambda row, _: (
        f'<td data-label="Result">{badge("order.interpretation", row.interpretation)}</td>\n'
    ),
    "lab": lambda row, _: f'<td data-label="Lab">{or_dash(row.lab_name)}</td>\n',
    "quiet": _overdue,
    "sample": lambda row, _: f'<td data-label="Sample">{short_id(row.sample_id, False)}</td>\n',
    "goes_out": lambda row, _: (
        f'<td data-label="Goes out on" class="nowrap">{day(row.activate_by)}</td>\n'
    ),
    "transaction": lambda row, _: (
        f'<td data-label="Transaction">{short_id(row.order_transaction_id)}</td>\n'
    ),
}
"""Cell functions by the key of the column in `columns.py`."""
