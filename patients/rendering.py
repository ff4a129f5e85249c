"""Rows of the list of patients as HTML: one function for each column."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, Final

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString

from backoffice.core.urls import record_url
from backoffice.pages.lists.context import ListContext
from backoffice.pages.templatetags.ui import DASH, age, dash, day, local_day, phone, short_id, words


def render_rows(rows: list[Any], screen: ListContext) -> SafeString:
    """Return the rows of one page, in the columns that the user has chosen."""
    cells = [CELLS[column.key] for column in screen.columns[1:]]
    parts = []
    for row in rows:
        parts.append(f"<tr>{_name(row)}")
        parts += [cell(row) for cell in cells]
        parts.append("</tr>\n")
    return SafeString("".join(parts))


def _name(row: Any) -> str:
    name, patient = '<span class="muted">Name not given</span>', row["patient"]
    if patient.full_name:
        name = f"<bdi>{escape(patient.full_name)}</bdi>"
    source = _from_order(row, "name")
    url = record_url("patients:detail", patient.pk)
    return (
        f'<th scope="row" class="lead"><a href="{url}" hx-boost="false">{name}</a>{source}</th>\n'
    )


def _from_order(row: Any, field: str) -> str:
    """Return a note that a value is from an order. The note at the name is for the whole row."""
    patient = row["patient"]
    if field not in patient.fields_from_order or (field != "name" and patient.is_named_by_order):
        return ""
    return (
        ' <span class="muted small nowrap">From order of'
        f" {local_day(patient.source_order_created_at)}</span>"
    )


def _born(row: Any) -> str:
    born = _value(row, "dob")
    years = f' <span class="muted">{age(born)}</span>' if born else ""
    source = _from_order(row, "dob")
    return f'<td data-label="Born" class="nowrap">{day(born)}{years}{source}</td>\n'


def _lives(row: Any) -> str:
    city, state = (
        escape(_value(row, "city") or ""),
        escape(_value(row, "state") or ""),
    )
    place = f"{city}, {state}" if state else city
    return f'<td data-label="Lives in" class="nowrap">{place if city else DASH}</td>\n'


def _value(row: Any, name: str) -> Any:
    return getattr(row["patient"], name)


CELLS: Final[dict[str, Callable[[Any], str]]] = {
    "born": _born,
    "sex": lambda row: (
        f'<td data-label="Sex">'
        f"{conditional_escape(words('person.gender', _value(row, 'gender')))}</td>\n"
    ),
    "phone": lambda row: (
        f'<td data-label="Phone">{conditional_escape(phone(_value(row, "phone_number")))}'
        f"{_from_order(row, 'phone')}</td>\n"
    ),
    "lives": _lives,
    "open": lambda row: f'<td data-label="Open orders" class="num">{row["open_orders"]}</td>\n',
    "ours": lambda row: (
        f'<td data-label="Our reference">{short_id(row["patient"].client_user_id, False)}</td>\n'
    ),
    "since": lambda row: (
        f'<td data-label="Since" class="nowrap">{local_day(row["patient"].created_on)}</td>\n'
    ),
    "patient": lambda row: (
        f'<td data-label="Patient" class="roomy">{short_id(row["patient"].pk)}</td>\n'
    ),
    "email": lambda row: (
        f'<td data-label="E-mail" class="wrap">{conditional_escape(dash(_value(row, "email")))}'
        f"{_from_order(row, 'email')}</td>\n"
    ),
    "zip": lambda row: (
        f'<td data-label="ZIP">{conditional_escape(dash(_value(row, "zip")))}</td>\n'
    ),
}
"""Functions by the column keys of `patient_list.py`. The first column links to the patient."""
