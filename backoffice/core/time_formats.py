"""Formats of times, dates and ages, in the style that the reader prefers.

The default is that of the United States: `Wed, Nov 25, 11:23 AM EST`. Every format of a date or a
time on a page, a print or in an email is here, or is made of these (`backoffice.pages.formats`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    *("", "January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class DateStyle:
    """How a reader prefers dates and times: 25 Nov or Nov 25, 23:05 or 11:05 PM."""

    day_first: bool = False
    hours_24: bool = False


UNITED_STATES: Final = DateStyle()
_style: ContextVar[DateStyle] = ContextVar("date style", default=UNITED_STATES)


@contextmanager
def override(style: DateStyle) -> Iterator[None]:
    """Format dates and times in this style inside a `with` block."""
    token = _style.set(style)
    try:
        yield
    finally:
        _style.reset(token)


def hour(moment: datetime) -> str:
    """Format a time of day: `8:00 AM` or `08:00`."""
    if _style.get().hours_24:
        return f"{moment.hour:02}:{moment.minute:02}"
    return f"{moment.hour % 12 or 12}:{moment.minute:02} {'AM' if moment.hour < 12 else 'PM'}"


def hour_with_seconds(moment: datetime) -> str:
    """Format a time of day: `8:00:05 AM` or `08:00:05`."""
    whole, space, half = hour(moment).partition(" ")
    return f"{whole}:{moment.second:02}{space}{half}"


def short_day(day: date) -> str:
    """Format a date without its year: `Nov 25` or `25 Nov`."""
    return _day_and_month(day, MONTHS[day.month][:3])


def calendar_day(day: date) -> str:
    """Format a date with its year: `Nov 25, 2026` or `25 Nov 2026`."""
    return f"{short_day(day)}{_year(day)}"


def weekday(day: date, *, year: bool = False) -> str:
    """Format a date with its weekday: `Wed, Nov 25` or `Wed 25 Nov`."""
    comma = "" if _style.get().day_first else ","
    return f"{DAYS[day.weekday()][:3]}{comma} {calendar_day(day) if year else short_day(day)}"


def long_day(day: date, *, year: bool = False) -> str:
    """Format a date as a heading: `Wednesday, November 25` or `Wednesday 25 November`."""
    comma = "" if _style.get().day_first else ","
    text = f"{DAYS[day.weekday()]}{comma} {_day_and_month(day, MONTHS[day.month])}"
    return f"{text}{_year(day)}" if year else text


def month_and_year(day: date) -> str:
    """Format a month: `November 2026`."""
    return f"{MONTHS[day.month]} {day.year}"


def _day_and_month(day: date, month: str) -> str:
    return f"{day.day} {month}" if _style.get().day_first else f"{month} {day.day}"


def _year(day: date) -> str:
    return f" {day.year}" if _style.get().day_first else f", {day.year}"


def zone_name(moment: datetime) -> str:
    """Return the abbreviation of a zone: MST, CET … or UTC−03 if the zone has no letters."""
    name = moment.tzname() or ""
    return f"UTC{name.replace('-', '−')}" if name[:1] in "+-" else name


def spoken(moment: datetime, now: datetime) -> str:
    """Format a time with its zone: `Wed, Nov 25, 11:23 AM EST`. The current year is left out."""
    day = weekday(moment, year=moment.year != now.year)
    return f"{day}, {hour(moment)} {zone_name(moment)}"


def ago(moment: datetime, now: datetime) -> str:
    """Format a relative time in one unit: `3 days ago`, `in 2 hours`.

    For use next to an absolute time.
    """
    seconds = (now - moment).total_seconds()
    size = abs(seconds)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("min", 60)):
        if size >= length:
            number = int(size // length)
            text = f"{number} {unit}{'s' if number > 1 and unit != 'min' else ''}"
            return f"{text} ago" if seconds >= 0 else f"in {text}"
    return "just now"


_NO_PLACES: Final = frozenset(("localtime", "posixrules", "Factory", "leapseconds"))


def zone_of(name: str | None) -> ZoneInfo | None:
    """Return the time zone of an IANA name; None if there is none.

    Also None for files of the system that are not the zone of a place, such as `localtime`.
    """
    try:
        return ZoneInfo(name) if name and name not in _NO_PLACES and "right/" not in name else None
    except (LookupError, ValueError, OSError):
        return None


def years(born: date, today: date) -> int:
    """Return the age in completed years. The birthday of 29 February is 1 March in other years."""
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))
