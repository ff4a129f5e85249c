"""The list of unmatched results: its columns, tabs and download."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict

from backoffice.accounts.access import may
from backoffice.core import vocabulary
from backoffice.pages.lists.definition import Column, ExportCell, ListPage, Preset
from backoffice.pages.lists.forms import FilterForm
from backoffice.pages.paging.counts import capped_counts
from orders.models.unmatched_result import Candidate, UnmatchedResult
from orders.sync.unmatched import is_enabled
from orders.unmatched.forms import DECIDED, TABS, UnmatchedFilterForm

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
        macro="person",
    ),
    Column(
        "why",
        "Why it was not matched",
        (ExportCell("Why", _term_label("unmatched.decision", "decision_code")),),
        macro="why",
    ),
    Column(
        "lab",
        "Lab",
        (ExportCell("Lab", lambda row: row.lab_name or row.lab_slug),),
        macro="lab",
    ),
    Column(
        "markers",
        "Markers",
        (ExportCell("Markers", lambda row: ", ".join(row.markers)),),
        macro="markers",
    ),
    Column(
        "result",
        "Result",
        (ExportCell("Result", _term_label("order.interpretation", "interpretation")),),
        needs="results.view",
        macro="result",
    ),
    Column(
        "received",
        "Received",
        (ExportCell("Received", lambda row: row.created_at, is_timestamp=True),),
        sort="created_at",
        macro="received",
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
        macro="decided",
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
    needs = ("orders.view", "patients.view")
    columns = COLUMNS
    row_macros = "unmatched/unmatched_rows.html"
    presets: ClassVar = (
        Preset("critical", "Critical", {"interpretation": ["critical"]}, "results.view"),
        Preset("latest", "Decided last", {"show": [DECIDED], "order_key": ["reviewed_at"]}),
    )

    def form(self, data: QueryDict, user: Any) -> UnmatchedFilterForm:
        return UnmatchedFilterForm(data, sees_results=may(user, "results.view"))

    def visible_rows(self, user: Any) -> QuerySet[UnmatchedResult]:
        return UnmatchedResult.objects.defer("record", "content_hash").filter(missing_since=None)

    def rows(self, form: FilterForm, user: Any) -> QuerySet[UnmatchedResult]:
        assert isinstance(form, UnmatchedFilterForm)
        rows = form.apply(self.visible_rows(user)).filter(status__in=TABS[form.tab][1])
        return rows.filter(reviewed_at__isnull=False) if form.sort[0] == "reviewed_at" else rows

    def row_context(self, user: Any, column_keys: Set[str]) -> UnmatchedRowContext:
        return UnmatchedRowContext(shows_decision="decided" not in column_keys)

    def notices(self, form: FilterForm) -> list[str]:
        return [DECIDED_NOTICE] if form.sort[0] == "reviewed_at" else []

    def page_context(self, form: FilterForm, user: Any) -> dict[str, Any]:
        """Return the tabs with their counts, and whether the service has the queue for us."""
        assert isinstance(form, UnmatchedFilterForm)
        counts: list[Any] = [None] * len(TABS)
        if form.is_valid():
            rows = form.apply(self.visible_rows(user))
            counts = capped_counts(*(rows.filter(status__in=one) for _, one in TABS.values()))
        tabs = [
            {"key": key, "label": label, "current": key == form.tab, "count": count}
            for (key, (label, _)), count in zip(TABS.items(), counts, strict=True)
        ]
        return {"tabs": tabs, "enabled": is_enabled()}

    def exported_patients(self, rows: Iterable[UnmatchedResult]) -> set[UUID | None]:
        """Return the patients whom the service suggests, and those who got a result."""
        results = {row.pk: row.resolved_user_id for row in rows}
        suggested = Candidate.objects.filter(result__in=list(results))
        return {*suggested.values_list("user_id", flat=True), *results.values()}

    def patient_id_of(self, row: UnmatchedResult) -> UUID | None:
        return row.resolved_user_id


UNMATCHED_LIST: Final = UnmatchedList()
