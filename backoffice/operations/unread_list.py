"""The list of records that could not be read into columns."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet

from backoffice.mirror.models import UnreadRecord
from backoffice.operations.filters import UnreadFilterSet
from backoffice.pages.formats import list_name
from backoffice.pages.lists.definition import Column, ExportCell, ListPage

COLUMNS: Final = (
    Column("record", "Record", (ExportCell("Record", lambda row: row.key),)),
    Column(
        "resource",
        "List",
        (ExportCell("List", lambda row: list_name(row.resource)),),
        sort="resource",
    ),
    Column(
        "path",
        "Field",
        (ExportCell("Field", lambda row: row.path),),
        cell_css="wrap",
    ),
    Column(
        "reason",
        "Error",
        (
            ExportCell("Error", lambda row: row.reason),
            ExportCell("The rest was stored", lambda row: row.is_stored),
        ),
        cell_css="wrap",
    ),
    Column(
        "first_seen",
        "First seen",
        (ExportCell("First seen", lambda row: row.first_seen, is_timestamp=True),),
        cell_css="nowrap",
    ),
    Column(
        "last_seen",
        "Last seen",
        (ExportCell("Last seen", lambda row: row.last_seen, is_timestamp=True),),
        sort="last_seen",
        cell_css="nowrap",
    ),
)


class UnreadList(ListPage):
    name = "unread"
    title = "Records we could not read"
    template = "system/unread.html"
    subject = "unread record"
    nouns = ("record", "records")
    needs = ("system.view",)
    columns = COLUMNS
    row_macros = "system/unread_rows.html"
    filter_set = UnreadFilterSet

    def visible_rows(self, user: Any) -> QuerySet[UnreadRecord]:
        return UnreadRecord.objects.without_record()


UNREAD_LIST: Final = UnreadList()
