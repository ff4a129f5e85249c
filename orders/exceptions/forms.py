"""The form of a call card."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, gettext_noop

from orders.exceptions.cards import CALL_OUTCOMES, HANDLED, SNOOZED, CallOutcome
from orders.local_time import LocalClock

MAX_SNOOZE: Final = timedelta(days=365)
MAX_NOTE_LENGTH: Final = 2_000
_NEEDS_REASON: Final = {
    SNOOZED: gettext_noop("Enter why it can wait."),
    HANDLED: gettext_noop("Enter what was done."),
}


class OutcomeForm(forms.Form):
    """The outcome of a call, a reason to snooze, or a note of what was done.

    Times are in the time zone of `place`.
    """

    outcome = forms.ChoiceField(
        error_messages={
            "required": gettext_lazy("Choose an outcome."),
            "invalid_choice": gettext_lazy("Choose an outcome."),
        },
    )
    event = forms.IntegerField(min_value=-(2**63), max_value=2**63 - 1)
    move = forms.IntegerField(min_value=1, max_value=2**63 - 1, required=False)
    seen = forms.CharField(max_length=30, required=False)
    note = forms.CharField(max_length=MAX_NOTE_LENGTH, required=False, label=gettext_lazy("Notes"))
    reason = forms.CharField(
        max_length=MAX_NOTE_LENGTH, required=False, label=gettext_lazy("Reason")
    )
    done = forms.CharField(
        max_length=MAX_NOTE_LENGTH, required=False, label=gettext_lazy("What was done")
    )
    until = forms.CharField(max_length=40, required=False, label=gettext_lazy("Until"))
    at = forms.CharField(max_length=20, required=False, label=gettext_lazy("Another time"))

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
            self.add_error(field, gettext(_NEEDS_REASON[outcome]))
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
            self.add_error(name, gettext("Enter a date and time, such as 2026-11-24T10:00."))
            return None
        if moment.tzinfo is None:
            try:
                local = moment.replace(tzinfo=self.place.zone)
                moment = local.astimezone(UTC)
            except (OverflowError, ValueError):
                self.add_error(name, gettext("This date is not in the calendar."))
                return None
            if moment.astimezone(self.place.zone).replace(tzinfo=None) != local.replace(
                tzinfo=None
            ):
                self.add_error(
                    name,
                    gettext("This time does not exist on that day: the clocks move forward."),
                )
                return None
        if not timezone.now() < moment < timezone.now() + MAX_SNOOZE:
            self.add_error(name, gettext("Choose a future time within one year."))
            return None
        return moment.astimezone(UTC)
