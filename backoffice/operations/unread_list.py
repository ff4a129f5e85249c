"""The list of records that could not be read into columns."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from backoffice.mirror.models import UnreadRecord
from backoffice.operations.mirror_filters import (
    DATE_FILTER,
    LIST_FILTER,
    MirrorFilters,
    RecordKeyField,
)
from backoffice.pages.formats import list_name
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.forms import Filter


class UnreadFilters(MirrorFilters):
    """Filter by list, record, time, and whether the rest of the record was stored."""

    stored = forms.ChoiceField(
        required=False,
        label="Stored",
        choices=[("", "Either"), ("part", "All but the unread part"), ("nothing", "Nothing")],
    )
    record = RecordKeyField()

    MODEL = UnreadRecord
    TIME = "last_seen"
    SORTS: ClassVar = {
        "last_seen": ("last_seen", "id"),
        "resource": ("resource", "last_seen", "id"),
    }
    DESCENDING_FIRST = frozenset({"last_seen"})
    FILTERS: ClassVar = (
        LIST_FILTER,
        Filter("Stored", ("stored",), always_shown=True),
        DATE_FILTER,
        Filter("Record", ("record",), always_shown=True),
    )

    def apply(self, rows: QuerySet[UnreadRecord]) -> QuerySet[UnreadRecord]:
        rows = super().apply(rows)
        if stored := self.cleaned_data["stored"]:
            rows = rows.filter(is_stored=stored == "part")
        if key := self.cleaned_data["record"]:
            rows = rows.filter(key=key)
        return rows


COLUMNS: Final = (
    Column("record", "Record", (ExportCell("Record", lambda row: row.key),), macro="record"),
    Column(
        "resource",
        "List",
        (ExportCell("List", lambda row: list_name(row.resource)),),
        sort="resource",
        macro="resource",
    ),
    Column(
        "path",
        "Where in it",
        (ExportCell("Where in it", lambda row: row.path),),
        macro="path",
        cell_css="wrap",
    ),
    Column(
        "reason",
        "Why",
        (
            ExportCell("Why", lambda row: row.reason),
            ExportCell("The rest was stored", lambda row: row.is_stored),
        ),
        macro="reason",
        cell_css="wrap",
    ),
    Column(
        "first_seen",
        "First seen",
        (ExportCell("First seen", lambda row: row.first_seen, is_timestamp=True),),
        macro="first_seen",
        cell_css="nowrap",
    ),
    Column(
        "last_seen",
        "Last seen",
        (ExportCell("Last seen", lambda row: row.last_seen, is_timestamp=True),),
        sort="last_seen",
        macro="last_seen",
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

    def form(self, data: QueryDict, user: Any) -> UnreadFilters:
        return UnreadFilters(data)

    def visible_rows(self, user: Any) -> QuerySet[UnreadRecord]:
        return UnreadRecord.objects.without_record()

    def rows(self, form: Any, user: Any) -> QuerySet[UnreadRecord]:
        rows: QuerySet[UnreadRecord] = form.apply(self.visible_rows(user))
        return rows

    def patient_id_of(self, row: UnreadRecord) -> None:
        return None


UNREAD_LIST: Final = UnreadList()
