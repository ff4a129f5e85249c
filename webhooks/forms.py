"""Filter forms of the event log and of replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from django import forms

from backoffice.pages.lists.fields import TimestampField, UuidField, check_day_order
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


class EventFilters(forms.Form):
    """Filters of the event log. They accept only ids, so that no URL has personal data."""

    type = TypeField()
    user_id = UuidField(label="Patient ID")
    subject_id = forms.CharField(
        required=False,
        max_length=200,
        label="Order or record ID",
        help_text="The whole id of the order, job, workout or other record it is about.",
    )
    message_id = forms.CharField(required=False, max_length=200, label="Message ID")
    since = TimestampField(label="Received from")
    until = TimestampField(label="Received until", end_of_day=True, help_text="The whole day.")
    conflict = forms.BooleanField(required=False, label="Came again with another body")

    IDS: Final = ("user_id", "subject_id", "message_id")
    DATES: Final = ("since", "until")

    def clean_subject_id(self) -> str:
        return str(self.cleaned_data["subject_id"]).strip()

    def clean_message_id(self) -> str:
        return str(self.cleaned_data["message_id"]).strip()

    def clean(self) -> None:
        check_day_order(self, "since", "until")

    def types(self, event_types: Iterable[str]) -> list[str] | None:
        """Return the types that match; None without a filter by type."""
        prefix = self.cleaned_data.get("type")
        return event_log.types_with_prefix(list(event_types), prefix) if prefix else None

    def is_specific(self) -> bool:
        """Return whether a filter selects a patient, record or message: few events match it."""
        return any(self.cleaned_data.get(name) for name in (*self.IDS, "conflict"))

    def apply(self, rows: EventQuerySet) -> EventQuerySet:
        """Filter rows by everything except the type."""
        filters = self.cleaned_data
        rows = rows.filter(**{name: filters[name] for name in self.IDS if filters.get(name)})
        if filters.get("conflict"):
            rows = rows.filter(body_conflict=True)
        return event_log.received_between(
            rows, filters.get("since"), filters.get("until"), self.within
        )

    @cached_property
    def within(self) -> tuple[int, int]:
        """Return the ids between which all events are that match the dates."""
        return event_log.numbers_between(
            self.cleaned_data.get("since"), self.cleaned_data.get("until")
        )

    def chips(self) -> list[dict[str, str]]:
        """Return the active filters with labels."""
        return [
            {"name": name, "value": self.data[name], "label": self._value_label(name)}
            for name, field in self.fields.items()
            if self.cleaned_data.get(name)
        ]

    def _value_label(self, name: str) -> str:
        label = str(self.fields[name].label)
        return label if name == "conflict" else f"{label}: {self.data[name]}"


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
        return event_log.received_between(rows, filters.get("since"), None)
