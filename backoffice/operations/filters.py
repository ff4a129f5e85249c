"""The filters of the lists of sync runs, differences and unread records."""

from __future__ import annotations

from functools import partial, reduce
from operator import itemgetter, or_
from typing import ClassVar, Final

from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext_lazy, gettext_noop
from django_filters import CharFilter, ChoiceFilter

from backoffice.core.distinct_values import distinct_values
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.pages.formats import list_name
from backoffice.pages.lists.filters import (
    ChoicesFilter,
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    TimestampFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from backoffice.sync.models import SyncRun

OPEN: Final = (SyncRun.State.DUE, SyncRun.State.RUNNING)
RUN_STATES: Final = {
    "due": Q(state=SyncRun.State.DUE, attempts=0),
    "running": Q(state=SyncRun.State.RUNNING, attempts=0),
    "retrying": Q(state__in=OPEN, attempts__gt=0),
    "done": Q(state=SyncRun.State.DONE),
    "failed": Q(state=SyncRun.State.FAILED),
}
"""The states that rows show (`sync_health.state_of`), each with its condition."""
RUN_STATE_LABELS: Final = {
    "due": gettext_lazy("Due"),
    "running": gettext_lazy("Running"),
    "retrying": gettext_lazy("Retrying"),
    "done": gettext_lazy("Done"),
    "failed": gettext_lazy("Failed"),
}
LIST_GROUP: Final = FilterGroup(gettext_noop("List"), ("resource",), always_shown=True)
DATE_GROUP: Final = FilterGroup(
    gettext_noop("Date"), ("day", "since", "until"), always_shown=True, shows_zone=True
)
RECORD_GROUP: Final = FilterGroup(gettext_noop("Record"), ("record",), always_shown=True)


def _resource_choices(model: type[Model]) -> list[tuple[str, str]]:
    """Return the lists that occur in a table."""
    choices = [(name, list_name(name)) for name in distinct_values(model, "resource")]
    return sorted(choices, key=itemgetter(1))


class ResourceFilter(DeferredChoiceFilter):
    def __init__(self, model: type[Model]) -> None:
        super().__init__(
            "resource", label=gettext_lazy("List"), read=partial(_resource_choices, model)
        )


class RunListForm(FilterForm):
    SORTS: ClassVar = {
        "created_at": ("created_at", "id"),
        "resource": ("resource", "created_at", "id"),
        "state": ("state", "created_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"created_at"})
    FILTERS: ClassVar = (
        LIST_GROUP,
        FilterGroup(gettext_noop("State"), ("state",), always_shown=True),
        FilterGroup(gettext_noop("Scope"), ("scope",), always_shown=True),
        DATE_GROUP,
    )


class RunFilterSet(ListFilterSet):
    resource = ResourceFilter(SyncRun)
    state = ChoicesFilter(
        "state",
        label=gettext_lazy("State"),
        choices=list(RUN_STATE_LABELS.items()),
        method="filter_state",
    )
    scope = ChoiceFilter(
        "full",
        label=gettext_lazy("Scope"),
        empty_label=gettext_lazy("Any"),
        choices=[("full", gettext_lazy("Everything")), ("changes", gettext_lazy("Changes"))],
        method="filter_scope",
    )
    day = DaysFilter("created_at", label=gettext_lazy("Day"))
    since = TimestampFilter("created_at", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "created_at",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )

    class Meta:
        form = RunListForm

    def filter_state(
        self, runs: QuerySet[SyncRun], name: str, states: list[str]
    ) -> QuerySet[SyncRun]:
        return runs.filter(reduce(or_, (RUN_STATES[state] for state in states)))

    def filter_scope(self, runs: QuerySet[SyncRun], name: str, scope: str) -> QuerySet[SyncRun]:
        return runs.filter(full=scope == "full")


class DriftListForm(FilterForm):
    SORTS: ClassVar = {
        "found_at": ("found_at", "id"),
        "resource": ("resource", "found_at", "id"),
        "kind": ("kind", "found_at", "id"),
    }
    DESCENDING_FIRST = frozenset({"found_at"})
    FILTERS: ClassVar = (
        LIST_GROUP,
        FilterGroup(gettext_noop("Difference"), ("kind",), always_shown=True),
        DATE_GROUP,
        RECORD_GROUP,
    )


class DriftFilterSet(ListFilterSet):
    resource = ResourceFilter(Drift)
    kind = ChoicesFilter("kind", label=gettext_lazy("Difference"), choices=Drift.Kind.choices)
    day = DaysFilter("found_at", label=gettext_lazy("Day"))
    since = TimestampFilter("found_at", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "found_at",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    record = CharFilter(
        "key",
        label=gettext_lazy("Record ID"),
        max_length=200,
        help_text=gettext_lazy("Enter the full ID."),
    )

    class Meta:
        form = DriftListForm


class UnreadListForm(FilterForm):
    SORTS: ClassVar = {
        "last_seen": ("last_seen", "id"),
        "resource": ("resource", "last_seen", "id"),
    }
    DESCENDING_FIRST = frozenset({"last_seen"})
    FILTERS: ClassVar = (
        LIST_GROUP,
        FilterGroup(gettext_noop("Stored"), ("stored",), always_shown=True),
        DATE_GROUP,
        RECORD_GROUP,
    )


class UnreadFilterSet(ListFilterSet):
    resource = ResourceFilter(UnreadRecord)
    stored = ChoiceFilter(
        "is_stored",
        label=gettext_lazy("Stored"),
        empty_label=gettext_lazy("Any"),
        choices=[
            ("part", gettext_lazy("Except the unreadable part")),
            ("nothing", gettext_lazy("Nothing")),
        ],
        method="filter_stored",
    )
    day = DaysFilter("last_seen", label=gettext_lazy("Day"))
    since = TimestampFilter("last_seen", "gte", label=gettext_lazy("From"))
    until = TimestampFilter(
        "last_seen",
        "lte",
        label=gettext_lazy("Until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    record = CharFilter(
        "key",
        label=gettext_lazy("Record ID"),
        max_length=200,
        help_text=gettext_lazy("Enter the full ID."),
    )

    class Meta:
        form = UnreadListForm

    def filter_stored(
        self, records: QuerySet[UnreadRecord], name: str, stored: str
    ) -> QuerySet[UnreadRecord]:
        return records.filter(is_stored=stored == "part")
