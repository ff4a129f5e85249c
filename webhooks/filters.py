"""The filters of the event log. They accept only ids, so that no URL has personal data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, Final

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from django_filters import CharFilter, ChoiceFilter

from backoffice.pages.lists.fields import DeferredChoiceField
from backoffice.pages.lists.filters import (
    DaysFilter,
    DeferredChoiceFilter,
    ListFilterSet,
    TabFilter,
    TimestampFilter,
    UUIDFilter,
)
from backoffice.pages.lists.forms import FilterForm, FilterGroup
from webhooks import event_log
from webhooks.models import Event, EventQuerySet

TABS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "": (gettext_noop("All"), ()),
    "failed": (gettext_noop("Failed"), (Event.State.DEAD,)),
    "retrying": (gettext_noop("Retrying"), (Event.State.RETRY,)),
    "waiting": (gettext_noop("Waiting"), (Event.State.PENDING,)),
    "skipped": (gettext_noop("Skipped"), (Event.State.SKIPPED,)),
    "foreign": (gettext_noop("From another team"), (Event.State.QUARANTINED,)),
    "done": (gettext_noop("Done"), (Event.State.DONE,)),
}
"""Label and states of each tab."""
LONG_TABS: Final = frozenset({"", "done"})
"""Tabs of states with many events. Those of the others have partial indexes."""
TYPE_AND_TIME: Final = frozenset({"type", "day", "since", "until"})


def event_type_choices(event_types: Sequence[str]) -> list[tuple[str, str]]:
    """Return choices for types: each group by its first words, followed by its types."""
    choices: dict[str, str] = {}
    for name in event_types:
        prefix = event_log.type_group(name)
        if prefix != name:
            choices.setdefault(
                prefix, gettext("%(group)s (all)") % {"group": event_log.group_label(prefix)}
            )
        choices[name] = event_log.type_label(name)
    return list(choices.items())


class EventListForm(FilterForm):
    SORTS: ClassVar = {"received": ("id",)}
    DESCENDING_FIRST = frozenset({"received"})
    TAB_FIELD = "show"
    FILTERS: ClassVar = (
        FilterGroup(gettext_noop("Type"), ("type",), always_shown=True),
        FilterGroup(
            gettext_noop("Received"), ("day", "since", "until"), always_shown=True, shows_zone=True
        ),
        FilterGroup(
            gettext_noop("About"), ("user_id", "subject_id", "message_id"), always_shown=True
        ),
        FilterGroup(gettext_noop("Different content"), ("conflict",)),
    )


class EventFilterSet(ListFilterSet):
    queryset: EventQuerySet

    show = TabFilter({key: label for key, (label, _) in TABS.items()})
    type = DeferredChoiceFilter("event_type", label=gettext_lazy("Type"), method="filter_types")
    day = DaysFilter("received_at", label=gettext_lazy("Day"))
    since = TimestampFilter("received_at", "gte", label=gettext_lazy("Received from"))
    until = TimestampFilter(
        "received_at",
        "lte",
        label=gettext_lazy("Received until"),
        end_of_day=True,
        help_text=gettext_lazy("The whole day."),
    )
    user_id = UUIDFilter(label=gettext_lazy("Patient ID"))
    subject_id = CharFilter(
        max_length=200,
        label=gettext_lazy("Order or record ID"),
        help_text=gettext_lazy("Full ID of the order, job, workout or other record."),
    )
    message_id = CharFilter(max_length=200, label=gettext_lazy("Message ID"))
    conflict = ChoiceFilter(
        "body_conflict",
        label=gettext_lazy("Received again with different content"),
        empty_label=gettext_lazy("Either"),
        choices=[("on", gettext_lazy("Yes"))],
        method="filter_conflict",
    )

    class Meta:
        form = EventListForm

    @cached_property
    def form(self) -> FilterForm:
        form = super().form
        field = form.fields["type"]
        assert isinstance(field, DeferredChoiceField)
        field.offer(lambda: event_type_choices(self.received_types))
        return form

    @cached_property
    def received_types(self) -> list[str]:
        return event_log.received_types()

    def filter_tab(self, events: EventQuerySet, name: str, tab: str) -> EventQuerySet:
        return events.filter(state__in=TABS[tab][1])

    def filter_types(self, events: EventQuerySet, name: str, prefixes: list[str]) -> EventQuerySet:
        return events.filter(event_type__in=self.types)

    def filter_conflict(self, events: EventQuerySet, name: str, value: str) -> EventQuerySet:
        return events.filter(body_conflict=True)

    def filter_queryset(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the events that match.

        No index has the times of receipt. The ids between which they are limit the search.
        """
        events = super().filter_queryset(queryset)
        if not self.form.is_valid():
            return events
        low, high = self.ids
        if low > 0:
            events = events.filter(pk__gt=low)
        return events.filter(pk__lt=high) if high < event_log.MAX_ID else events

    @cached_property
    def types(self) -> list[str]:
        """The received types that match valid filters.

        A value of the filter is a type or its first words.
        """
        prefixes = self.form.cleaned_data["type"]
        matching = (event_log.types_with_prefix(self.received_types, each) for each in prefixes)
        return sorted(set().union(*matching))

    @cached_property
    def received(self) -> tuple[datetime | None, datetime | None]:
        """The first and the last time of receipt of valid filters."""
        values = self.form.cleaned_data
        since, until = values["since"], values["until"]
        if values["day"]:
            first, after = values["day"]
            since = max(since or first, first)
            until = min(until or after, after - timedelta(microseconds=1))
        return since, until

    @cached_property
    def ids(self) -> tuple[int, int]:
        """The ids between which all events are that match the times of receipt."""
        return event_log.ids_between(*self.received)

    def is_long_list_of_types(self) -> bool:
        """Return whether valid filters have several types, and none that few events match."""
        has_others = not self.form.active_filter_names() <= TYPE_AND_TIME
        is_long = self.form.tab in LONG_TABS and not has_others
        return is_long and bool(self.form.cleaned_data["type"]) and len(self.types) > 1

    def of_any_type(self) -> EventQuerySet:
        """Return the events of any type and id in a list for which `is_long_list_of_types`."""
        events = self.queryset.received_between(*self.received)
        tab = self.form.tab
        return self.filter_tab(events, "show", tab) if tab else events
