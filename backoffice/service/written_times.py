"""Times as a laboratory wrote them. Interface: orders, chapter 8.

Only a time with an offset is an instant. A time without one is the laboratory's own time of day,
and a date alone is a day of its calendar: neither is ever converted to another zone. Text that is
no time is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from enum import StrEnum
from typing import Final

EARLIEST, LATEST = 1900, 2200
"""Years outside are placeholders, such as year 1: shown as written, but never sorted by."""

_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_SLASHED: Final = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})", re.ASCII)
_CLOCK: Final = re.compile(
    r"(?:,?\s+|T)(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:\s*([AaPp])\.?[Mm]\.?)?", re.ASCII
)


class Precision(StrEnum):
    """How much of a moment the text gives."""

    INSTANT = "instant"
    LOCAL_TIME = "local time"
    DAY = "day"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class WrittenTime:
    """A time with its text as received. `instant` is given where the text has an offset, `local`
    where it has a time of day without one, `day` wherever it has a date: always the date that is
    written, whatever the offset."""

    text: str
    precision: Precision
    instant: datetime | None = None
    local: datetime | None = None
    day: date | None = None

    @classmethod
    def of_instant(cls, moment: datetime) -> WrittenTime:
        """A moment that came with an offset, or is ours."""
        return cls(moment.isoformat(), Precision.INSTANT, moment, None, moment.date())

    def sort_key(self, zone: tzinfo) -> datetime | None:
        """What a clock on the wall shows: of an instant the one in `zone`, so that rows are in the
        order of the days that are shown there; else the laboratory's. None without any date."""
        if self.instant is not None:
            return self.instant.astimezone(zone).replace(tzinfo=None)
        if self.local is not None:
            return self.local
        return datetime.combine(self.day, time()) if self.day else None


def read_written_time(text: str | None) -> WrittenTime:
    """Read a time in any spelling that has one meaning; never raises.

    ISO 8601, and month/day/year where the day cannot be a month or is the same number. Where
    day and month may be exchanged the date is not known.
    """
    text = text or ""
    written = text.strip()
    return _read_iso(text, written) or _read_slashed(text, written) or _unread(text)


def _unread(text: str) -> WrittenTime:
    return WrittenTime(text, Precision.NONE)


def _read_iso(text: str, written: str) -> WrittenTime | None:
    if not _ISO.match(written):
        return None
    # Other characters between date and time are an offset of the date, or something else.
    if written[10:11] in ("T", "t", " "):
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            moment = None
        # 24:00 is read as the day after by some releases of Python: never another day.
        if moment and moment.date().isoformat() == written[:10] and _is_plausible(moment):
            if moment.tzinfo is None:
                return WrittenTime(text, Precision.LOCAL_TIME, None, moment, moment.date())
            return WrittenTime(text, Precision.INSTANT, moment.astimezone(UTC), None, moment.date())
    return _read_day_first(text, written, 10, date.fromisoformat)


def _read_slashed(text: str, written: str) -> WrittenTime | None:
    found = _SLASHED.match(written)
    return found and _read_day_first(text, written, found.end(), _one_meaning)


def _read_day_first(
    text: str, written: str, length: int, read: Callable[[str], date | None]
) -> WrittenTime | None:
    """A date at the beginning, and a time of day behind it. What else is there, such as the letters
    of a zone, leaves the day alone: the time is shown as written."""
    rest = written[length:]
    try:
        day = read(written[:length])
    except ValueError:
        return None
    if day is None or not _is_plausible(day) or rest[:1].isdigit():
        return None
    if not rest:
        return WrittenTime(text, Precision.DAY, None, None, day)
    of_day = _time_of_day(rest)
    if of_day is None:
        return WrittenTime(text, Precision.NONE, None, None, day)
    return WrittenTime(text, Precision.LOCAL_TIME, None, datetime.combine(day, of_day), day)


def _one_meaning(written: str) -> date | None:
    """A day of which month and day cannot be exchanged, else None. Raises ValueError."""
    first, second, year = map(int, re.split(r"[/.-]", written))
    month, day = (second, first) if first > 12 else (first, second)
    return date(year, month, day) if day > 12 or day == month else None


def _time_of_day(text: str) -> time | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour, half = int(found[1]), (found[4] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    try:
        return time(hour, int(found[2]), int(found[3] or 0))
    except ValueError:
        return None


def _is_plausible(day: date) -> bool:
    return EARLIEST <= day.year <= LATEST
