"""The list of unmatched results: its columns, tabs and download."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.counts import Count, capped_counts
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from orders.models.unmatched_result import Candidate, UnmatchedResult
from orders.sync.unmatched import is_enabled
from orders.unmatched.filters import DECIDED, PENDING, TABS, UnmatchedFilterSet

DECIDED_NOTICE: Final = (
    "Sorted by decision time, here and in a download: results without that time are not listed."
)


def _term_label(name: str, field: str) -> Any:
    return lambda row: vocabulary.term(name, getattr(row, field)).label


COLUMNS: Final = (
    Column(
        "person",
        "Person on the result",
        (
            ExportCell("Result", lambda row: row.pk),
            ExportCell("First name", lambda row: row.first_name),
            ExportCell("Last name", lambda row: row.last_name),
            ExportCell("Born", lambda row: row.dob),
        ),
        sort="name",
    ),
    Column(
        "why",
        "Why it was not matched",
        (ExportCell("Why", _term_label("unmatched.decision", "decision_code")),),
    ),
    Column(
        "lab",
        "Lab",
        (ExportCell("Lab", lambda row: row.lab_name or row.lab_slug),),
    ),
    Column(
        "markers",
        "Markers",
        (ExportCell("Markers", lambda row: ", ".join(row.markers)),),
    ),
    Column(
        "result",
        "Result",
        (ExportCell("Result", _term_label("order.interpretation", "interpretation")),),
        needs="results.view",
    ),
    Column(
        "received",
        "Received",
        (ExportCell("Received", lambda row: row.created_at, is_timestamp=True),),
        sort="created_at",
        cell_css="nowrap",
    ),
    Column(
        "decided",
        "Decided",
        (
            ExportCell("Decision", _term_label("unmatched.action", "resolution_action")),
            ExportCell("Decided", lambda row: row.reviewed_at, is_timestamp=True),
        ),
        sort="reviewed_at",
        shown=False,
        cell_css="nowrap",
    ),
    Column("id", "Result ID", css="roomy", shown=False, macro="result_id", cell_css="roomy"),
)


@dataclass(frozen=True, slots=True)
class UnmatchedRowContext:
    """The values that are the same for all rows of a page."""

    shows_decision: bool
    """Whether a decision is shown beside its cause, because its own column is hidden."""


class UnmatchedList(ListPage):
    name = "unmatched"
    title = "Unmatched results"
    template = "unmatched/list.html"
    subject = "unmatched result"
    nouns = ("result", "results")
    patient_column = "resolved_user_id"
    needs = ("orders.view", "patients.view")
    columns = COLUMNS
    row_macros = "unmatched/unmatched_rows.html"
    filter_set = UnmatchedFilterSet
    presets: ClassVar = (
        Preset(
            "critical",
            "Critical",
            {"show": [PENDING], "interpretation": ["critical"]},
            "results.view",
        ),
        Preset("latest", "Decided last", {"show": [DECIDED], "order_key": ["reviewed_at"]}),
    )

    def visible_rows(self, user: Any) -> QuerySet[UnmatchedResult]:
        return UnmatchedResult.objects.defer("record", "content_hash").filter(missing_since=None)

    def row_context(self, user: Any, column_keys: Set[str]) -> UnmatchedRowContext:
        return UnmatchedRowContext(shows_decision="decided" not in column_keys)

    def notices(self, filters: ListFilterSet) -> list[str]:
        return [DECIDED_NOTICE] if filters.form.sort[0] == "reviewed_at" else []

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        """Return the tabs with their counts, and whether the service has the queue for us."""
        form = filters.form
        counts: Sequence[Count | None] = [None] * len(TABS)
        if form.is_valid():
            rows = filters.rows_of_all_tabs()
            counts = capped_counts(*(rows.filter(status__in=one) for _, one in TABS.values()))
        current = form.tab
        tabs = [
            Tab(label, address_with(filters.data, show=key), key == current, count)
            for (key, (label, _)), count in zip(TABS.items(), counts, strict=True)
        ]
        return {"tabs": tabs, "enabled": is_enabled()}

    def exported_patients(self, rows: Iterable[UnmatchedResult]) -> set[UUID | None]:
        """Return the patients whom the service suggests, and those who got a result."""
        results = {row.pk: row.resolved_user_id for row in rows}
        suggested = Candidate.objects.filter(result__in=list(results))
        return {*suggested.values_list("user_id", flat=True), *results.values()}


UNMATCHED_LIST: Final = UnmatchedList()
