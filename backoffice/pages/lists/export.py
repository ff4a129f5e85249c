"""Lists as CSV: streamed page by page, so that a million rows take no more memory than a thousand.

Each page is a keyset query. A database cursor would keep a transaction open. Each page is recorded
in the audit trail before its first byte is sent, so nothing is sent that is not recorded.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import get_language, gettext
from django.utils.translation import override as override_language

from backoffice.audit.recording import record_entry
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.lists.formulas import escape_formula
from backoffice.pages.paging.pages import PagePosition

PAGE: Final = 2_000
BOM: Final = "\ufeff"
CONTENT_TYPE: Final = "text/csv; charset=utf-8"


def download(
    request: HttpRequest,
    list_page: ListPage,
    filters: ListFilterSet,
    rows: QuerySet[Any],
    columns: Sequence[Column],
    *,
    bom: bool,
) -> StreamingHttpResponse:
    """Return these rows and columns as a file. `filters` are valid and define the order."""
    zone = timezone.get_current_timezone()
    assert isinstance(zone, ZoneInfo)
    cells = [cell for column in columns for cell in column.cells]
    named = f"{list_page.name}-{timezone.localtime():%Y-%m-%d-%H%M}.csv"
    lines = _lines(request, list_page, filters, rows, cells, zone)
    # The first page is read and audited before the response begins, so an error there is an error
    # page.
    beginning = next(lines)
    body = _whole(beginning, lines, bom)
    return StreamingHttpResponse(body, content_type=CONTENT_TYPE, headers=_saved_as(named))


def download_computed(
    request: HttpRequest,
    name: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    subject: str,
    ids: Sequence[object],
    patients: Iterable[UUID | None],
) -> HttpResponse:
    """Return computed rows as a file, audited as one export of `ids`."""
    zone = timezone.get_current_timezone()
    assert isinstance(zone, ZoneInfo)
    record_entry(request, "export", subject, ids=ids, patients=patients, row_count=len(ids))
    out = _Line()
    writer = csv.writer(out)
    writer.writerow(heads)
    writer.writerows([_cell(value, zone) for value in row] for row in rows)
    named = f"{name}-{timezone.localtime():%Y-%m-%d-%H%M}.csv"
    # The byte order mark tells spreadsheet programs that the file is UTF-8.
    text = BOM + out.take_text()
    return HttpResponse(text, content_type=CONTENT_TYPE, headers=_saved_as(named))


def _saved_as(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _whole(beginning: str, lines: Iterator[str], bom: bool) -> Iterator[bytes]:
    yield ((BOM if bom else "") + beginning).encode()
    for more in lines:
        yield more.encode()


class _Line:
    """A file-like object that collects the lines of a csv writer."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(line)

    def take_text(self) -> str:
        text = "".join(self.lines)
        self.lines.clear()
        return text


def _lines(
    request: HttpRequest,
    list_page: ListPage,
    filters: ListFilterSet,
    rows: QuerySet[Any],
    cells: Sequence[ExportCell],
    zone: ZoneInfo,
) -> Iterator[str]:
    out = _Line()
    writer = csv.writer(out)
    writer.writerow(
        [
            f"{gettext(cell.header)} ({zone.key})" if cell.is_timestamp else gettext(cell.header)
            for cell in cells
        ]
    )
    language = get_language()
    place: PagePosition = {"after": None, "before": None}
    while True:
        # This runs while the response is sent. The time zone and the language of the request are no
        # longer active.
        with timezone.override(zone), override_language(language):
            page = list_page.page(rows, filters, PAGE, place)
            complete_rows = list_page.with_related(page.rows, request.user)
            record_entry(
                request,
                "export",
                list_page.subject,
                ids=[row.pk for row in page.rows],
                patients=list_page.exported_patients(page.rows),
                row_count=len(page.rows),
            )
            writer.writerows(
                [_cell(cell.read(row), zone) for cell in cells] for row in complete_rows
            )
        yield out.take_text()
        if page.next is None:
            return
        place = {"after": page.next, "before": None}


def _cell(value: object, zone: ZoneInfo) -> str:
    if value is None:
        return ""
    if value is True or value is False:
        return gettext("yes") if value else gettext("no")
    if isinstance(value, datetime):
        return value.astimezone(zone).isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int):
        return str(value)
    return escape_formula(str(value))
