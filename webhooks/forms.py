"""Filter forms of the event log and of replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar, Final

from django import forms

from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    TimestampField,
    UuidField,
    check_day_order,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from webhooks import event_log
from webhooks.models import Event, EventQuerySet

TABS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "": ("All", ()),
    "failed": ("Failed", (Event.State.DEAD,)),
    "retrying": ("Retrying", (Event.State.RETRY,)),
    "waiting": ("Waiting", (Event.State.PENDING,)),
    "skipped": ("Skipped", (Event.State.SKIPPED,)),
    "foreign": ("Of another team", (Event.State.QUARANTINED,)),
    "done": ("Done", (Event.State.DONE,)),
}
"""Label and states of each tab."""
RARE_TABS: Final = frozenset({"failed", "retrying", "waiting", "skipped", "foreign"})
"""Tabs of states with few events, which have partial indexes."""


class TypeField(forms.CharField):
    """An event type, or its first words."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            required=False,
            max_length=120,
            label="Type",
            help_text="Whole words from the start, such as labtest.order.",
            widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none"}),
            **kwargs,
        )


def event_type_choices(event_types: Sequence[str]) -> list[tuple[str, str]]:
    """Return choices for types: each group by its first words, followed by its types."""
    choices: dict[str, str] = {}
    for name in event_types:
        prefix = event_log.type_group(name)
        if prefix != name:
            choices.setdefault(prefix, f"{event_log.group_label(prefix)} (all)")
        choices[name] = event_log.type_label(name)
    return list(choices.items())


class EventFilters(FilterForm):
    """Filters of the event log. They accept only ids, so that no URL has personal data."""

    show = forms.CharField(required=False, max_length=20, widget=forms.HiddenInput)
    type = DeferredChoiceField(required=False, label="Type", widget=forms.CheckboxSelectMultiple)
    day = DaysField("", label="Day")
    since = TimestampField(label="Received from")
    until = TimestampField(label="Received until", end_of_day=True, help_text="The whole day.")
    user_id = UuidField(label="Patient ID")
    subject_id = forms.CharField(
        required=False,
        max_length=200,
        label="Order or record ID",
        help_text="The whole id of the order, job, workout or other record it is about.",
    )
    message_id = forms.CharField(required=False, max_length=200, label="Message ID")
    conflict = forms.ChoiceField(
        required=False,
        label="Came again with another body",
        choices=[("", "Either"), ("on", "Yes")],
    )

    SORTS: ClassVar = {"received": ("id",)}
    DESCENDING_FIRST = frozenset({"received"})
    TAB_FIELDS = frozenset({"show"})
    FILTERS: ClassVar = (
        Filter("Type", ("type",), always_shown=True),
        Filter("Received", ("day", "since", "until"), always_shown=True, shows_zone=True),
        Filter("About", ("user_id", "subject_id", "message_id"), always_shown=True),
        Filter("Another body", ("conflict",)),
    )
    IDS: Final = ("user_id", "subject_id", "message_id")

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        field = self.fields["type"]
        assert isinstance(field, DeferredChoiceField)
        field.offer(lambda: event_type_choices(self.received_types))

    @cached_property
    def received_types(self) -> list[str]:
        return event_log.received_types()

    @cached_property
    def types(self) -> list[str] | None:
        """The received types that match a valid form; None without a filter by type.

        A value of the filter is a type or its first words.
        """
        chosen = self.cleaned_data["type"]
        if not chosen:
            return None
        matching = (event_log.types_with_prefix(self.received_types, prefix) for prefix in chosen)
        return sorted(set().union(*matching))

    @property
    def tab(self) -> str:
        return self.cleaned_data.get("show") or ""

    def clean_show(self) -> str:
        """Return the tab; that of all events for an unknown one."""
        name: str = self.cleaned_data["show"]
        return name if name in TABS else ""

    def clean_subject_id(self) -> str:
        return str(self.cleaned_data["subject_id"]).strip()

    def clean_message_id(self) -> str:
        return str(self.cleaned_data["message_id"]).strip()

    def clean(self) -> None:
        super().clean()
        check_day_order(self, "since", "until")

    def is_read_by_type(self) -> bool:
        """Return whether a valid form has several types, and no filter that few events match."""
        filters = self.cleaned_data
        is_rare = self.tab in RARE_TABS or any(filters[name] for name in (*self.IDS, "conflict"))
        return self.types is not None and len(self.types) > 1 and not is_rare

    @cached_property
    def received(self) -> tuple[datetime | None, datetime | None]:
        """The first and the last time of receipt of a valid form."""
        since, until = self.cleaned_data["since"], self.cleaned_data["until"]
        if self.cleaned_data["day"]:
            first, after = self.cleaned_data["day"]
            since = max(since or first, first)
            until = min(until or after, after - timedelta(microseconds=1))
        return since, until

    @cached_property
    def ids(self) -> tuple[int, int]:
        """The ids between which all events are that match the times of receipt."""
        return event_log.ids_between(*self.received)

    def apply(self, rows: EventQuerySet) -> EventQuerySet:
        """Return the rows that match a valid form, of all types and ids."""
        filters = self.cleaned_data
        rows = rows.filter(**{name: filters[name] for name in self.IDS if filters[name]})
        if filters["conflict"]:
            rows = rows.filter(body_conflict=True)
        if states := TABS[self.tab][1]:
            rows = rows.filter(state__in=states)
        return rows.received_between(*self.received)


class ReplayFilters(forms.Form):
    """Filters for events that were not applied, to be replayed."""

    STATES: Final[Mapping[str, str]] = {
        Event.State.DEAD: "failed",
        Event.State.SKIPPED: "skipped",
        Event.State.QUARANTINED: "quarantined",
    }

    state = forms.ChoiceField(
        required=False,
        label="Events that were",
        choices=[(state, words) for state, words in STATES.items()],
    )
    since = TimestampField(label="Received from")
    type = TypeField()
    reason = forms.CharField(required=False, max_length=200, label="Reason")
    through = forms.IntegerField(
        required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput
    )
    shown_at = TimestampField(widget=forms.HiddenInput)

    def chosen_state(self) -> str:
        return str(self.cleaned_data.get("state") or Event.State.DEAD)

    def apply(self, rows: EventQuerySet, types: list[str]) -> EventQuerySet:
        """Filter the rows that the page has shown, without events that arrived or failed since."""
        filters = self.cleaned_data
        rows = rows.filter(state=self.chosen_state())
        if filters.get("type"):
            rows = rows.filter(event_type__in=event_log.types_with_prefix(types, filters["type"]))
        if filters.get("reason"):
            rows = rows.filter(reason=filters["reason"])
        if filters.get("through"):
            rows = rows.filter(pk__lte=filters["through"])
        if filters.get("shown_at"):
            rows = rows.filter(applied_at__lte=filters["shown_at"])
        since = filters.get("since")
        if since is not None:
            rows = rows.filter(pk__gt=event_log.last_event_before(since))
        return rows.received_between(since, None)
