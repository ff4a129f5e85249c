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

from django.utils.translation import gettext, gettext_lazy, gettext_noop, ngettext, pgettext_lazy

DAYS: Final = (
    gettext_lazy("Monday"),
    gettext_lazy("Tuesday"),
    gettext_lazy("Wednesday"),
    gettext_lazy("Thursday"),
    gettext_lazy("Friday"),
    gettext_lazy("Saturday"),
    gettext_lazy("Sunday"),
)
SHORT_DAYS: Final = (
    pgettext_lazy("short weekday", "Mon"),
    pgettext_lazy("short weekday", "Tue"),
    pgettext_lazy("short weekday", "Wed"),
    pgettext_lazy("short weekday", "Thu"),
    pgettext_lazy("short weekday", "Fri"),
    pgettext_lazy("short weekday", "Sat"),
    pgettext_lazy("short weekday", "Sun"),
)
MONTHS: Final = (
    "",
    gettext_lazy("January"),
    gettext_lazy("February"),
    gettext_lazy("March"),
    gettext_lazy("April"),
    gettext_lazy("May"),
    gettext_lazy("June"),
    gettext_lazy("July"),
    gettext_lazy("August"),
    gettext_lazy("September"),
    gettext_lazy("October"),
    gettext_lazy("November"),
    gettext_lazy("December"),
)
SHORT_MONTHS: Final = (
    "",
    pgettext_lazy("short month", "Jan"),
    pgettext_lazy("short month", "Feb"),
    pgettext_lazy("short month", "Mar"),
    pgettext_lazy("short month", "Apr"),
    pgettext_lazy("short month", "May"),
    pgettext_lazy("short month", "Jun"),
    pgettext_lazy("short month", "Jul"),
    pgettext_lazy("short month", "Aug"),
    pgettext_lazy("short month", "Sep"),
    pgettext_lazy("short month", "Oct"),
    pgettext_lazy("short month", "Nov"),
    pgettext_lazy("short month", "Dec"),
)
US_ZONES: Final = {
    "America/New_York": gettext_noop("Eastern"),
    "America/Chicago": gettext_noop("Central"),
    "America/Denver": gettext_noop("Mountain"),
    "America/Phoenix": gettext_noop("Mountain"),
    "America/Los_Angeles": gettext_noop("Pacific"),
    "America/Anchorage": gettext_noop("Alaska"),
    "Pacific/Honolulu": gettext_noop("Hawaii"),
}


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
    return f"{moment.hour % 12 or 12}:{moment.minute:02} {_half(moment)}"


def _half(moment: datetime) -> str:
    return gettext("AM") if moment.hour < 12 else gettext("PM")


def hour_with_seconds(moment: datetime) -> str:
    """Format a time of day: `8:00:05 AM` or `08:00:05`."""
    whole, space, half = hour(moment).partition(" ")
    return f"{whole}:{moment.second:02}{space}{half}"


def short_day(day: date) -> str:
    """Format a date without its year: `Nov 25` or `25 Nov`."""
    return _day_and_month(day, str(SHORT_MONTHS[day.month]))


def calendar_day(day: date) -> str:
    """Format a date with its year: `Nov 25, 2026` or `25 Nov 2026`."""
    return f"{short_day(day)}{_year(day)}"


def weekday(day: date, *, year: bool = False) -> str:
    """Format a date with its weekday: `Wed, Nov 25` or `Wed 25 Nov`."""
    comma = "" if _style.get().day_first else ","
    return f"{SHORT_DAYS[day.weekday()]}{comma} {calendar_day(day) if year else short_day(day)}"


def long_day(day: date, *, year: bool = False) -> str:
    """Format a date as a heading: `Wednesday, November 25` or `Wednesday 25 November`."""
    comma = "" if _style.get().day_first else ","
    text = f"{DAYS[day.weekday()]}{comma} {_day_and_month(day, str(MONTHS[day.month]))}"
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


def long_zone_name(moment: datetime) -> str:
    """Return the name of a zone as people in the United States say it: `Eastern (EST)`."""
    name = US_ZONES.get(getattr(moment.tzinfo, "key", ""))
    if name is None:
        return zone_name(moment)
    return f"{gettext(name)} ({zone_name(moment)})"


def spoken(moment: datetime, now: datetime) -> str:
    """Format a time with its zone: `Wed, Nov 25, 11:23 AM EST`. The current year is left out."""
    day = weekday(moment, year=moment.year != now.year)
    return f"{day}, {hour(moment)} {zone_name(moment)}"


def ago(moment: datetime, now: datetime) -> str:
    """Format a relative time in one unit: `3 days ago`, `in 2 hours`.

    For use next to an absolute time.
    """
    seconds = (now - moment).total_seconds()
    size, is_past = abs(seconds), seconds >= 0
    for unit, length in (("day", 86_400), ("hour", 3_600), ("min", 60)):
        if size >= length:
            return _in_units(int(size // length), unit, is_past=is_past)
    return gettext("just now")


def _in_units(count: int, unit: str, *, is_past: bool) -> str:
    if unit == "day":
        past = ngettext("%(count)d day ago", "%(count)d days ago", count)
        future = ngettext("in %(count)d day", "in %(count)d days", count)
    elif unit == "hour":
        past = ngettext("%(count)d hour ago", "%(count)d hours ago", count)
        future = ngettext("in %(count)d hour", "in %(count)d hours", count)
    else:
        past = ngettext("%(count)d min ago", "%(count)d min ago", count)
        future = ngettext("in %(count)d min", "in %(count)d min", count)
    return (past if is_past else future) % {"count": count}


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
