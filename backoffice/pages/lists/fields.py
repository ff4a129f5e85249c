"""Form fields that the filters of several lists share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, partial
from typing import Any, ClassVar, Final

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext, gettext_lazy

from backoffice.core import vocabulary

DAYS: Final = {
    "today": gettext_lazy("today"),
    "yesterday": gettext_lazy("yesterday"),
    "this_week": gettext_lazy("this week"),
    "last_7": gettext_lazy("last 7 days"),
    "this_month": gettext_lazy("this month"),
    "last_30": gettext_lazy("last 30 days"),
}
"""Periods relative to today, so that a saved view of "this week" stays correct."""


REVERSED_RANGE: Final = "backwards"
Choices = list[tuple[str, str]]
_OPTIONAL: Final[dict[str, Any]] = {"required": False}


def check_day_order(form: forms.Form, first: str, last: str) -> None:
    """Add an error to the last day if it is before the first day."""
    begins, ends = form.cleaned_data.get(first), form.cleaned_data.get(last)
    if begins and ends and begins > ends:
        form.add_error(
            last, ValidationError(gettext("This is before the first day."), code=REVERSED_RANGE)
        )


def response_status(form: forms.Form) -> int:
    """Return 400 for values that cannot be parsed.

    Days in the wrong order can be parsed. They match no row, and the status is 200.
    """
    wrong = [
        error.code for field_errors in form.errors.as_data().values() for error in field_errors
    ]
    return 400 if any(code != REVERSED_RANGE for code in wrong) else 200


class AnyChoiceField(forms.MultipleChoiceField):
    """A multiple choice field that accepts any value. An unknown value matches no row."""

    def valid_value(self, value: Any) -> bool:
        return len(str(value)) <= 100 and "\x00" not in str(value)


class OpenVocabularyField(AnyChoiceField):
    """A field for an open enumeration. It offers the known values and accepts any other."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.vocabulary = name
        self.offered = partial(vocabulary.choices, name)
        super().__init__(
            choices=self.offered, widget=forms.CheckboxSelectMultiple, **(_OPTIONAL | kwargs)
        )


class TimestampField(forms.CharField):
    """A date, or a date with time, in the staff member's time zone unless the text has its own.

    A date alone means the start of that day, or its end with `end_of_day`.
    """

    widget = forms.DateInput(attrs={"type": "date"})

    def __init__(self, *, end_of_day: bool = False, **kwargs: Any) -> None:
        self.end_of_day = end_of_day
        super().__init__(**(_OPTIONAL | kwargs))

    def clean(self, value: Any) -> datetime | None:
        text = str(value or "").strip()
        if not text:
            return None
        try:
            moment: date | None = parse_date(text) or parse_datetime(text)
        except ValueError:
            moment = None
        if moment is None:
            raise ValidationError(gettext("Enter a date as YYYY-MM-DD."))
        whole_day = self.end_of_day and not isinstance(moment, datetime)
        try:
            if not isinstance(moment, datetime):
                # The end of a day is the start of the next one, because its last hour may repeat.
                moment = datetime.combine(moment + timedelta(days=whole_day), time.min)
            if timezone.is_naive(moment):
                moment = timezone.make_aware(moment)
            return moment.astimezone(UTC) - timedelta(microseconds=whole_day)
        except OverflowError as error:
            raise ValidationError(gettext("Enter a date with a valid year.")) from error


class UuidField(forms.UUIDField):
    default_error_messages: ClassVar = {
        "invalid": gettext_lazy("Enter the whole ID: 36 letters, digits and dashes.")
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**(_OPTIONAL | kwargs))


class DeferredChoiceField(AnyChoiceField):
    """A field whose choices are in a table. A form reads them once, and only if it shows them."""

    widget = forms.CheckboxSelectMultiple
    read: Callable[[], Choices] | None = None

    def __init__(self, *, read: Callable[[], Choices] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if read is not None:
            self.offer(read)

    def __deepcopy__(self, memo: Any) -> DeferredChoiceField:
        copied: DeferredChoiceField = super().__deepcopy__(memo)
        if self.read is not None:
            copied.offer(self.read)
        return copied

    def offer(self, read: Callable[[], Choices]) -> None:
        """Set the function that reads the choices."""
        self.read = read
        self.offered = self.choices = cache(read)


class PersonField(DeferredChoiceField):
    """Members of staff by id, and the words of `words`, such as "me"."""

    def __init__(self, *, words: Sequence[str] = (), **kwargs: Any) -> None:
        self.words = words
        super().__init__(**kwargs)

    def valid_value(self, value: object) -> bool:
        text = str(value)
        return text in self.words or (text.isascii() and text.isdigit() and len(text) < 10)


class DaysField(forms.ChoiceField):
    """A period relative to today, in the staff member's time zone.

    Its cleaned value is a pair: the start of the period, and the first instant after it.
    """

    def __init__(self, short: str, **kwargs: Any) -> None:
        self.short = short
        super().__init__(
            choices=[("", gettext_lazy("Any day")), *DAYS.items()], **(_OPTIONAL | kwargs)
        )

    def clean(self, value: Any) -> Any:
        key = super().clean(value)
        return _days(key, timezone.localdate()) if key else None


def _days(key: str, today: date) -> tuple[datetime, datetime]:
    first, after = today, today + timedelta(days=1)
    if key == "yesterday":
        first, after = today - timedelta(days=1), today
    elif key == "this_week":
        first = today - timedelta(days=today.weekday())
    elif key == "this_month":
        first = today.replace(day=1)
    elif key in ("last_7", "last_30"):
        first = today - timedelta(days=int(key.removeprefix("last_")) - 1)
    begins, ends = (
        timezone.make_aware(datetime.combine(day, time.min)).astimezone(UTC)
        for day in (first, after)
    )
    return begins, ends
