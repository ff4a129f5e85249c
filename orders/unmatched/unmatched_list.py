"""The list of unmatched results: its columns, tabs and download."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop

from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.filters import ListFilterSet
from backoffice.pages.paging.counts import Count, capped_counts
from backoffice.pages.query_strings import address_with
from backoffice.pages.tabs import Tab
from orders.models.unmatched_result import Candidate, UnmatchedResult
from orders.sync.unmatched import is_enabled
from orders.unmatched.filters import DECIDED, PENDING, TABS, UnmatchedFilterSet

DECIDED_NOTICE: Final = gettext_noop(
    "Sorted by decision time. Results without one are not listed or downloaded."
)


def _term_label(name: str, field: str) -> Any:
    return lambda row: gettext(vocabulary.term(name, getattr(row, field)).label)


COLUMNS: Final = (
    Column(
        "person",
        gettext_noop("Person on the result"),
        (
            ExportCell(gettext_noop("Result"), lambda row: row.pk),
            ExportCell(gettext_noop("First name"), lambda row: row.first_name),
            ExportCell(gettext_noop("Last name"), lambda row: row.last_name),
            ExportCell(gettext_noop("Born"), lambda row: row.dob),
        ),
        sort="name",
    ),
    Column(
        "why",
        gettext_noop("Why it was not matched"),
        (ExportCell(gettext_noop("Reason"), _term_label("unmatched.decision", "decision_code")),),
    ),
    Column(
        "lab",
        gettext_noop("Lab"),
        (ExportCell(gettext_noop("Lab"), lambda row: row.lab_name or row.lab_slug),),
    ),
    Column(
        "markers",
        gettext_noop("Markers"),
        (ExportCell(gettext_noop("Markers"), lambda row: ", ".join(row.markers)),),
    ),
    Column(
        "result",
        gettext_noop("Result"),
        (
            ExportCell(
                gettext_noop("Result"), _term_label("order.interpretation", "interpretation")
            ),
        ),
        needs="results.view",
    ),
    Column(
        "received",
        gettext_noop("Received"),
        (ExportCell(gettext_noop("Received"), lambda row: row.created_at, is_timestamp=True),),
        sort="created_at",
        cell_css="nowrap",
    ),
    Column(
        "decided",
        gettext_noop("Resolved"),
        (
            ExportCell(
                gettext_noop("Decision"), _term_label("unmatched.action", "resolution_action")
            ),
            ExportCell(gettext_noop("Resolved"), lambda row: row.reviewed_at, is_timestamp=True),
        ),
        sort="reviewed_at",
        shown=False,
        cell_css="nowrap",
    ),
    Column(
        "id",
        gettext_noop("Result ID"),
        css="roomy",
        shown=False,
        macro="result_id",
        cell_css="roomy",
    ),
)


@dataclass(frozen=True, slots=True)
class UnmatchedRowContext:
    """The values that are the same for all rows of a page."""

    shows_decision: bool
    """Whether a decision is shown beside its cause, because its own column is hidden."""


class UnmatchedList(ListPage):
    name = "unmatched"
    title = gettext_noop("Unmatched results")
    template = "unmatched/list.html"
    subject = "unmatched result"
    nouns = (gettext_noop("result"), gettext_noop("results"))
    patient_column = "resolved_user_id"
    needs = ("orders.view", "patients.view")
    columns = COLUMNS
    row_macros = "unmatched/unmatched_rows.html"
    filter_set = UnmatchedFilterSet
    presets: ClassVar = (
        Preset(
            "critical",
            gettext_noop("Critical"),
            {"show": [PENDING], "interpretation": ["critical"]},
            "results.view",
        ),
        Preset(
            "latest",
            gettext_noop("Recently resolved"),
            {"show": [DECIDED], "order_key": ["reviewed_at"]},
        ),
    )

    def visible_rows(self, user: Any) -> QuerySet[UnmatchedResult]:
        return UnmatchedResult.objects.defer("record", "content_hash").filter(missing_since=None)

    def row_context(self, user: Any, column_keys: Set[str]) -> UnmatchedRowContext:
        return UnmatchedRowContext(shows_decision="decided" not in column_keys)

    def notices(self, filters: ListFilterSet) -> list[str]:
        return [gettext(DECIDED_NOTICE)] if filters.form.sort[0] == "reviewed_at" else []

    def page_context(self, filters: ListFilterSet) -> dict[str, Any]:
        """Return the tabs with their counts, and whether the service has the queue for us."""
        form = filters.form
        counts: Sequence[Count | None] = [None] * len(TABS)
        if form.is_valid():
            rows = filters.rows_of_all_tabs()
            counts = capped_counts(*(rows.filter(status__in=one) for _, one in TABS.values()))
        current = form.tab
        tabs = [
            Tab(gettext(label), address_with(filters.data, show=key), key == current, count)
            for (key, (label, _)), count in zip(TABS.items(), counts, strict=True)
        ]
        return {"tabs": tabs, "enabled": is_enabled()}

    def exported_patients(self, rows: Iterable[UnmatchedResult]) -> set[UUID | None]:
        """Return the patients whom the service suggests, and those who got a result."""
        results = {row.pk: row.resolved_user_id for row in rows}
        suggested = Candidate.objects.filter(result__in=list(results))
        return {*suggested.values_list("user_id", flat=True), *results.values()}


UNMATCHED_LIST: Final = UnmatchedList()
