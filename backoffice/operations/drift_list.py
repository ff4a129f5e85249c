"""The list of differences that full sync runs found and repaired."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django import forms
from django.db.models import QuerySet
from django.http import QueryDict

from backoffice.mirror.models import Drift
from backoffice.operations.mirror_filters import (
    DATE_FILTER,
    LIST_FILTER,
    MirrorFilters,
    RecordKeyField,
)
from backoffice.pages.formats import list_name
from backoffice.pages.lists.definition import Column, ExportCell, ListPage
from backoffice.pages.lists.forms import Filter


class DriftFilters(MirrorFilters):
    """Filter by list, kind of difference, record and time."""

    kind = forms.MultipleChoiceField(
        required=False,
        label="Difference",
        choices=Drift.Kind.choices,
        widget=forms.CheckboxSelectMultiple,
    )
    record = RecordKeyField()

    MODEL = Drift
    TIME = "found_at"
    SORTS: ClassVar = {
        "found_at": ("found_at", "id"),
        "resource": ("resource", "found_at", "id"),
        "kind": ("kind", "found_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"found_at"})
    FILTERS: ClassVar = (
        LIST_FILTER,
        Filter("Difference", ("kind",), always_shown=True),
        DATE_FILTER,
        Filter("Record", ("record",), always_shown=True),
    )

    def apply(self, rows: QuerySet[Drift]) -> QuerySet[Drift]:
        rows = super().apply(rows)
        if kinds := self.cleaned_data["kind"]:
            rows = rows.filter(kind__in=kinds)
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
        "kind",
        "Difference",
        (ExportCell("Difference", lambda row: row.get_kind_display()),),
        sort="kind",
        macro="kind",
    ),
    Column(
        "detail",
        "Detail",
        (ExportCell("Detail", lambda row: row.detail),),
        macro="detail",
        cell_css="wrap",
    ),
    Column(
        "found_at",
        "Found",
        (ExportCell("Found", lambda row: row.found_at, is_timestamp=True),),
        sort="found_at",
        macro="found_at",
        cell_css="nowrap",
    ),
)


class DriftList(ListPage):
    name = "drift"
    title = "Differences found"
    template = "system/drift.html"
    subject = "difference"
    nouns = ("difference", "differences")
    needs = ("system.view",)
    columns = COLUMNS
    row_macros = "system/drift_rows.html"

    def form(self, data: QueryDict, user: Any) -> DriftFilters:
        return DriftFilters(data)

    def visible_rows(self, user: Any) -> QuerySet[Drift]:
        return Drift.objects.all()

    def rows(self, form: Any, user: Any) -> QuerySet[Drift]:
        rows: QuerySet[Drift] = form.apply(self.visible_rows(user))
        return rows

    def patient_id_of(self, row: Drift) -> None:
        return None


DRIFT_LIST: Final = DriftList()
