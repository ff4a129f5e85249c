"""The list of differences that full sync runs found and repaired."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet

from backoffice.mirror.models import Drift
from backoffice.operations.filters import DriftFilterSet
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
        "kind",
        "Difference",
        (ExportCell("Difference", lambda row: row.get_kind_display()),),
        sort="kind",
    ),
    Column(
        "detail",
        "Detail",
        (ExportCell("Detail", lambda row: row.detail),),
        cell_css="wrap",
    ),
    Column(
        "found_at",
        "Found",
        (ExportCell("Found", lambda row: row.found_at, is_timestamp=True),),
        sort="found_at",
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
    filter_set = DriftFilterSet

    def visible_rows(self, user: Any) -> QuerySet[Drift]:
        return Drift.objects.all()


DRIFT_LIST: Final = DriftList()
