"""The filters of the list of unmatched results, combined with AND, within a tab."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy, gettext_noop
from django_filters import ChoiceFilter

from backoffice.core import vocabulary
from backoffice.pages.lists.filters import (
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    TabFilter,
    TimestampFilter,
    VocabularyFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from labs.models import Lab
from orders.models.unmatched_result import (
    PENDING_REVIEW,
    PENDING_SERVICE_REVIEW,
    RESOLVED,
    UnmatchedResult,
)

PENDING: Final = "pending"
DECIDED: Final = "decided"
TABS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    PENDING: (gettext_noop("Needs your decision"), (PENDING_REVIEW,)),
    "service": (gettext_noop("The service will decide"), (PENDING_SERVICE_REVIEW,)),
    DECIDED: (gettext_noop("Resolved"), RESOLVED),
}
"""The tabs of the list, each with its label and the statuses of its results."""


class UnmatchedListForm(FilterForm):
    SORTS: ClassVar = {
        "created_at": ("created_at", "id"),
        "name": ("last_name", "first_name", "id"),
        "reviewed_at": ("reviewed_at", "id"),
    }
    PRIVATE_SORTS = frozenset({"name"})
    DESCENDING_FIRST = frozenset({"reviewed_at"})
    NEEDS: ClassVar = {"interpretation": "results.view"}
    TAB_FIELD, DEFAULT_TAB, MAIN_TAB = "show", PENDING, PENDING
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Lab"), ("lab",), always_shown=True),
        FilterGroup(gettext_noop("Reason"), ("decision_code",), always_shown=True),
        FilterGroup(
            gettext_noop("Received"),
            ("received", "since", "until"),
            always_shown=True,
            shows_zone=True,
        ),
        FilterGroup(gettext_noop("Result"), ("interpretation",), always_shown=True),
    )

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort: what waits longest is first; of what is decided, the latest."""
        key, direction = super().sort
        if not self.can_sort_by(key):
            return "created_at", self._default_direction
        if key == "created_at" and not self.cleaned_data.get("order_direction"):
            direction = self._default_direction
        return key, direction

    @property
    def _default_direction(self) -> str:
        return "desc" if self.tab == DECIDED else "asc"

    def can_sort_by(self, key: str) -> bool:
        """Return whether the open tab has this sort.

        Only decided results have a decision time. Only the others are few enough to sort by name.
        """
        is_decided = self.tab == DECIDED
        has_sort = {"reviewed_at": is_decided, "name": not is_decided}.get(key, True)
        return has_sort and super().can_sort_by(key)


class UnmatchedFilterSet(ListFilterSet):
    show = TabFilter({key: label for key, (label, _) in TABS.items()})
    lab = DeferredChoiceFilter("lab_slug", label=gettext_lazy("Lab"), read=Lab.choices)
    decision_code = VocabularyFilter(
        "unmatched.decision", "decision_code", label=gettext_lazy("Reason")
    )
    received = DaysFilter("created_at", label=gettext_lazy("Day"))
    since = TimestampFilter("created_at", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "created_at",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    interpretation = ChoiceFilter(
        label=gettext_lazy("Interpretation"),
        empty_label=gettext_lazy("Any"),
        choices=vocabulary.choices("order.interpretation"),
    )

    class Meta:
        form = UnmatchedListForm

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match. Sorted by decision time, they are those that have one."""
        results = super().filter_queryset(queryset)
        if self.form.sort[0] == "reviewed_at":
            return results.filter(reviewed_at__isnull=False)
        return results

    def filter_tab(
        self, results: QuerySet[UnmatchedResult], name: str, tab: str
    ) -> QuerySet[UnmatchedResult]:
        return results.filter(status__in=TABS[tab][1])
