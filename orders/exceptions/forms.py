"""The filters of the exception queue, and the form of a call card."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q
from django.http import QueryDict
from django.utils import timezone

from backoffice.accounts.access import may
from backoffice.pages.lists.fields import (
    DaysField,
    DeferredChoiceField,
    OpenVocabularyField,
    UuidField,
)
from backoffice.pages.lists.forms import Filter, FilterForm
from backoffice.pages.paging.counts import Count
from orders.exceptions import queue
from orders.exceptions.cards import CALL_OUTCOMES, HANDLED, OUTCOME_LABELS, SNOOZED, CallOutcome
from orders.exceptions.queue import EXCEPTION_GROUPS, ExceptionGroup
from orders.forms import AssignedField, assigned_to, assignees_and_labs
from orders.local_time import LocalClock

MAX_SNOOZE: Final = timedelta(days=365)
MAX_NOTE_LENGTH: Final = 2_000
_NEEDS_REASON: Final = {
    SNOOZED: "Say why it can wait.",
    HANDLED: "Say what was done.",
}


class ExceptionFilters(FilterForm):
    """Filters of a group of exceptions. Without a group: the first one that is not empty."""

    group = forms.ChoiceField(
        required=False,
        choices=[(key, group.label) for key, group in EXCEPTION_GROUPS.items()],
        widget=forms.HiddenInput,
    )
    assigned = AssignedField(
        required=False, label="Assigned to", widget=forms.CheckboxSelectMultiple
    )
    method = OpenVocabularyField("order.method", label="Method")
    lab = DeferredChoiceField(required=False, label="Lab", widget=forms.CheckboxSelectMultiple)
    outcome = forms.MultipleChoiceField(
        required=False,
        label="Last outcome",
        choices=list(OUTCOME_LABELS.items()),
        widget=forms.CheckboxSelectMultiple,
    )
    ordered = DaysField("ordered", label="Ordered")
    changed = DaysField("changed", label="Changed")
    patient = UuidField(label="Patient ID")

    SORTS = queue.SORTS
    DESCENDING_FIRST = frozenset({"ordered"})
    PRIVATE_SORTS = frozenset({"patient"})
    TAB_FIELDS = frozenset({"group"})
    FILTERS: ClassVar = (
        Filter("Assigned to", ("assigned",), always_shown=True),
        Filter("Method", ("method",), always_shown=True),
        Filter("Last outcome", ("outcome",), always_shown=True),
        Filter("Lab", ("lab",)),
        Filter("Date", ("ordered", "changed"), shows_zone=True),
        Filter("About", ("patient",)),
    )

    def __init__(self, data: Any, user: Any) -> None:
        super().__init__(data)
        self.user = user
        self.now = timezone.now()
        read = cache(assignees_and_labs)
        for name in ("assigned", "lab"):
            field = self.fields[name]
            assert isinstance(field, DeferredChoiceField)
            field.offer(lambda name=name: read()[name])  # type: ignore[misc]

    @cached_property
    def groups(self) -> list[tuple[ExceptionGroup, Count]]:
        """The groups that the user may see, each with its count."""
        counts = queue.group_counts(self.now, self.user)
        return [(group, counts[group.key]) for group in queue.visible_groups(self.user)]

    @property
    def has_waiting(self) -> bool:
        """Whether a group other than that of snoozed orders is not empty."""
        return any(count.value for group, count in self.groups if group.key != queue.SNOOZED)

    @cached_property
    def open_group(self) -> ExceptionGroup:
        """The chosen group, else the first one that is not empty."""
        if chosen := self.cleaned_data.get("group"):
            return EXCEPTION_GROUPS[chosen]
        return next(
            (group for group, count in self.groups if count.value and group.key != queue.SNOOZED),
            self.groups[0][0],
        )

    def clean_group(self) -> str:
        key: str = self.cleaned_data["group"]
        if key == queue.CRITICAL and not may(self.user, "results.view"):
            raise forms.ValidationError("Your role does not show results.", code="hidden")
        return key

    def may_open(self, query: Any) -> bool:
        is_hidden = queue.CRITICAL in query.get("group", ()) and not may(self.user, "results.view")
        return super().may_open(query) and not is_hidden

    @property
    def sort(self) -> tuple[str, str]:
        """The active sort; the default of the group where it does not have the chosen one."""
        key, direction = super().sort
        if self.cleaned_data.get("order_key") in self.open_group.sorts:
            return key, direction
        return self.open_group.sorts[0], "asc"

    def can_sort_by(self, key: str) -> bool:
        return super().can_sort_by(key) and key in self.open_group.sorts

    @property
    def order_condition(self) -> Q:
        """The condition for orders that match the filters."""
        filters = self.cleaned_data
        condition = Q()
        for name, lookup in (
            ("method", "method__in"),
            ("lab", "lab_slug__in"),
            ("patient", "user"),
            ("outcome", "handling__outcome__in"),
        ):
            if filters[name]:
                condition &= Q(**{lookup: filters[name]})
        for name, column in (("ordered", "created_at"), ("changed", "updated_at")):
            if filters[name]:
                first, after = filters[name]
                condition &= Q(**{f"{column}__gte": first, f"{column}__lt": after})
        if filters["assigned"]:
            condition &= assigned_to(filters["assigned"], self.user)
        return condition


class OutcomeForm(forms.Form):
    """The outcome of a call, a reason to snooze, or a note of what was done.

    Times are in the time zone of `place`.
    """

    outcome = forms.ChoiceField(
        error_messages={
            "required": "Choose how the call ended.",
            "invalid_choice": "Choose how the call ended.",
        },
    )
    event = forms.IntegerField(min_value=-(2**63), max_value=2**63 - 1)
    move = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    seen = forms.CharField(max_length=30, required=False)
    note = forms.CharField(max_length=MAX_NOTE_LENGTH, required=False, label="What was said")
    reason = forms.CharField(max_length=MAX_NOTE_LENGTH, required=False, label="Why it can wait")
    done = forms.CharField(max_length=MAX_NOTE_LENGTH, required=False, label="What was done")
    until = forms.CharField(max_length=40, required=False, label="Until")
    at = forms.CharField(max_length=20, required=False, label="Another time")

    def __init__(self, data: QueryDict, place: LocalClock, offered: Iterable[CallOutcome]) -> None:
        super().__init__(data)
        self.place = place
        field = self.fields["outcome"]
        assert isinstance(field, forms.ChoiceField)
        values = [outcome.value for outcome in offered]
        field.choices = [(name, name) for name in (*values, SNOOZED, HANDLED)]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        outcome = values.get("outcome")
        field = {SNOOZED: "reason", HANDLED: "done"}.get(outcome or "", "note")
        values["words"] = values.get(field, "")
        if outcome in _NEEDS_REASON and not values["words"] and field not in self.errors:
            self.add_error(field, _NEEDS_REASON[outcome])
        if outcome in CALL_OUTCOMES:
            values["comes_back"] = self.place.morning(timezone.now(), CALL_OUTCOMES[outcome].days)
        elif outcome == SNOOZED:
            values["comes_back"] = self._chosen_time(values)
        else:
            values["comes_back"] = None
        return values

    def _chosen_time(self, values: dict[str, Any]) -> datetime | None:
        """Return the chosen time, or the one typed in the patient's time zone."""
        typed = values.get("at", "")
        name, text = ("at", typed) if typed else ("until", values.get("until", ""))
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.add_error(name, "Give a day and a time, such as 2026-11-24T10:00.")
            return None
        if moment.tzinfo is None:
            try:
                local = moment.replace(tzinfo=self.place.zone)
                moment = local.astimezone(UTC)
            except (OverflowError, ValueError):
                self.add_error(name, "This day is not in the calendar.")
                return None
            if moment.astimezone(self.place.zone).replace(tzinfo=None) != local.replace(
                tzinfo=None
            ):
                self.add_error(name, "Clocks go forward then: there is no such time that day.")
                return None
        if not timezone.now() < moment < timezone.now() + MAX_SNOOZE:
            self.add_error(name, "Choose a time that is to come, within a year.")
            return None
        return moment.astimezone(UTC)
