"""Form for a past moment: a typed time, or a stop of the slider."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext, gettext_lazy

from backoffice.pages.lists.fields import TimestampField
from backoffice.pages.widgets import DateTimeLocalInput
from webhooks.record_history import SliderStop


class PastMomentField(TimestampField):
    """A past time. A time without seconds means the end of its minute."""

    def clean(self, value: Any) -> datetime | None:
        moment = super().clean(value)
        if moment is None:
            return None
        if moment > timezone.now():
            raise ValidationError(gettext("Choose a time in the past."))
        if str(value).strip().endswith("Z"):
            return moment
        return moment.replace(second=0) + timedelta(seconds=59)


class MomentForm(forms.Form):
    """Asks for a past moment, by time or by stop of the slider."""

    at = PastMomentField(
        label=gettext_lazy("Date and time"),
        help_text=gettext_lazy("In your time zone."),
        widget=DateTimeLocalInput(),
    )
    stop = forms.IntegerField(
        required=False, min_value=0, max_value=10_000, label=gettext_lazy("Time of a change")
    )

    @classmethod
    def showing(cls, moment: datetime | None) -> Self:
        """Return a form with the moment in the field, in the time zone of the user."""
        return cls(initial={"at": timezone.make_naive(moment) if moment else None})

    def shareable(self) -> bool:
        """Return whether the URL has the moment in UTC, which is the same for every user."""
        text = str(self.data.get("at", "")).strip()
        return "stop" not in self.data and text.endswith("Z") and _is_moment(text)

    def moment(self, stops: Sequence[SliderStop]) -> datetime | None:
        """Return the chosen moment: that of the stop, else the time; None without either."""
        stop = self.cleaned_data.get("stop")
        if stop is not None and stops:
            chosen_stop: SliderStop = stops[min(stop, len(stops) - 1)]
            return chosen_stop.at
        chosen_at: datetime | None = self.cleaned_data.get("at")
        return chosen_at


def _is_moment(text: str) -> bool:
    try:
        return parse_datetime(text) is not None
    except ValueError:
        return False
