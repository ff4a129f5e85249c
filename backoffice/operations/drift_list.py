"""The list of differences that full sync runs found and repaired."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.utils.translation import gettext_noop

from backoffice.mirror.models import Drift
from backoffice.operations.filters import DriftFilterSet
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
        "kind",
        gettext_noop("Difference"),
        (ExportCell(gettext_noop("Difference"), lambda row: row.get_kind_display()),),
        sort="kind",
    ),
    Column(
        "detail",
        gettext_noop("Detail"),
        (ExportCell(gettext_noop("Detail"), lambda row: row.detail),),
        cell_css="wrap",
    ),
    Column(
        "found_at",
        gettext_noop("Found"),
        (ExportCell(gettext_noop("Found"), lambda row: row.found_at, is_timestamp=True),),
        sort="found_at",
        cell_css="nowrap",
    ),
)


class DriftList(ListPage):
    name = "drift"
    title = gettext_noop("Differences found")
    template = "system/drift.html"
    subject = "difference"
    nouns = (gettext_noop("difference"), gettext_noop("differences"))
    needs = ("system.view",)
    columns = COLUMNS
    row_macros = "system/drift_rows.html"
    filter_set = DriftFilterSet

    def visible_rows(self, user: Any) -> QuerySet[Drift]:
        return Drift.objects.all()


DRIFT_LIST: Final = DriftList()
