"""Render rows of the list of labs as HTML, in Python and not in a template: there are hundreds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from backoffice.core.urls import record_url
from backoffice.core.vocabulary import term
from backoffice.pages.templatetags.ui import DASH, badge, or_dash
from labs.models import Lab, LabAccount


@dataclass(frozen=True, slots=True)
class LabRow:
    """A lab with the team's accounts and its numbers of lab tests and markers."""

    lab: Lab
    accounts: list[LabAccount]
    tests: int
    markers: int


def render_rows(rows: Iterable[LabRow]) -> str:
    return "".join(_row(row) for row in rows)


def _row(row: LabRow) -> str:
    lab, url = row.lab, record_url("labs:detail", row.lab.pk)
    missing_note = " · no longer at the service" if lab.missing_since else ""
    accounts = "".join(_account(each) for each in row.accounts)
    return (
        f'<tr>\n<td class="lead"><a href="{url}">{escape(lab.name)}</a>'
        f'<span class="second">{or_dash(lab.city)}{missing_note}</span></td>\n'
        '<td data-label="Our accounts"><span>'
        f"{accounts or _NO_ACCOUNT}</span></td>\n"
        f'<td data-label="Collection">{_words("lab.collection_method", lab.collection_methods)}'
        f'</td>\n<td data-label="Samples">{_words("lab_test.sample_type", lab.sample_types)}'
        '</td>\n<td class="num" data-label="Lab tests">'
        f'<a href="{url}?show=tests">{row.tests:,}</a></td>\n'
        f'<td class="num" data-label="Markers"><a href="{url}?show=markers">{row.markers:,}</a>'
        "</td>\n</tr>\n"
    )


_NO_ACCOUNT = '<span class="muted">No account</span>'


def _account(account: LabAccount) -> str:
    url = record_url("labs:account", account.pk)
    state = badge("lab_account.status", account.status, True)
    return f'<span class="second"><a href="{url}">{escape(str(account))}</a> {state}</span>'


def _words(vocabulary: str, values: Iterable[str]) -> str:
    return ", ".join(or_dash(term(vocabulary, value).label) for value in values) or DASH
