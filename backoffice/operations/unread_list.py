"""The list of records that could not be read into columns."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop

from backoffice.mirror.models import UnreadRecord
from backoffice.operations.filters import UnreadFilterSet
from backoffice.pages.formats import list_name
from backoffice.pages.lists.definition import Column, ExportCell, ListPage

COLUMNS: Final = (
    Column(
        "record", gettext_noop("Record"), (ExportCell(gettext_noop("Record"), lambda row: row.key),)
    ),
    Column(
        "resource",
        gettext_noop("List"),
        (ExportCell(gettext_noop("List"), lambda row: list_name(row.resource)),),
        sort="resource",
    ),
    Column(
        "path",
        gettext_noop("Field"),
        (ExportCell(gettext_noop("Field"), lambda row: row.path),),
        cell_css="wrap",
    ),
    Column(
        "reason",
        gettext_noop("Error"),
        (
            ExportCell(gettext_noop("Error"), lambda row: gettext(row.reason)),
            ExportCell(gettext_noop("Rest stored"), lambda row: row.is_stored),
        ),
        cell_css="wrap",
    ),
    Column(
        "first_seen",
        gettext_noop("First seen"),
        (ExportCell(gettext_noop("First seen"), lambda row: row.first_seen, is_timestamp=True),),
        cell_css="nowrap",
    ),
    Column(
        "last_seen",
        gettext_noop("Last seen"),
        (ExportCell(gettext_noop("Last seen"), lambda row: row.last_seen, is_timestamp=True),),
        sort="last_seen",
        cell_css="nowrap",
    ),
)


class UnreadList(ListPage):
    name = "unread"
    title = gettext_noop("Records that could not be read")
    template = "system/unread.html"
    subject = "unread record"
    nouns = (gettext_noop("record"), gettext_noop("records"))
    needs = ("system.view",)
    columns = COLUMNS
    row_macros = "system/unread_rows.html"
    filter_set = UnreadFilterSet

    def visible_rows(self, user: Any) -> QuerySet[UnreadRecord]:
        return UnreadRecord.objects.without_record()


UNREAD_LIST: Final = UnreadList()
