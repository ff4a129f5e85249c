"""Times as a laboratory wrote them. Interface: orders, chapter 8.

Only a time with an offset is an instant. A time without one is the laboratory's local time, and a
date alone is a day of its calendar. Neither is ever converted to another zone. Text that is not a
time is shown unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo
from enum import StrEnum
from typing import Final

EARLIEST, LATEST = 1900, 2200
"""Years outside this range are placeholders, such as year 1: shown, but never used for sorting."""

_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_SLASHED: Final = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})", re.ASCII)
_CLOCK: Final = re.compile(
    r"(?:,?\s+|T)(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:\s*([AaPp])\.?[Mm]\.?)?", re.ASCII
)


class Precision(StrEnum):
    """The precision of the text."""

    INSTANT = "instant"
    LOCAL_TIME = "local time"
    DAY = "day"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class WrittenTime:
    """A time with its text as received.

    `instant` is set when the text has an offset, `local` when it has a time of day without one, and
    `day` whenever it has a date. `day` is always the date as written, whatever the offset.
    """

    text: str
    precision: Precision
    instant: datetime | None = None
    local: datetime | None = None
    day: date | None = None

    @classmethod
    def from_instant(cls, moment: datetime) -> WrittenTime:
        """Return a time that has an offset, or that comes from our clock."""
        return cls(moment.isoformat(), Precision.INSTANT, moment, None, moment.date())

    def sort_key(self, zone: tzinfo) -> datetime | None:
        """Return the local time to sort by; None without any date.

        For an instant it is the local time in `zone`, so that rows are in the order of the days
        shown there. Otherwise it is the laboratory's local time.
        """
        if self.instant is not None:
            return self.instant.astimezone(zone).replace(tzinfo=None)
        if self.local is not None:
            return self.local
        return datetime.combine(self.day, time()) if self.day else None


def read_written_time(text: str | None) -> WrittenTime:
    """Read a time in any spelling that has one meaning; never raises.

    Accepted are ISO 8601, and month/day/year when the day cannot be a month or is the same number.
    When day and month could be exchanged, the date is unknown.
    """
    text = text or ""
    stripped = text.strip()
    return _read_iso(text, stripped) or _read_slashed(text, stripped) or _unparsed(text)


def _unparsed(text: str) -> WrittenTime:
    return WrittenTime(text, Precision.NONE)


def _read_iso(text: str, stripped: str) -> WrittenTime | None:
    if not _ISO.match(stripped):
        return None
    # After other characters, the rest is an offset of the date, or something else.
    if stripped[10:11] in ("T", "t", " "):
        try:
            moment = datetime.fromisoformat(stripped)
        except ValueError:
            moment = None
        # Some releases of Python read 24:00 as the next day. Such a time is rejected, because the
        # date must not change.
        if moment and moment.date().isoformat() == stripped[:10] and _is_plausible(moment):
            if moment.tzinfo is None:
                return WrittenTime(text, Precision.LOCAL_TIME, None, moment, moment.date())
            return WrittenTime(text, Precision.INSTANT, moment.astimezone(UTC), None, moment.date())
    return _read_day_first(text, stripped, 10, date.fromisoformat)


def _read_slashed(text: str, stripped: str) -> WrittenTime | None:
    match = _SLASHED.match(stripped)
    return match and _read_day_first(text, stripped, match.end(), _one_meaning)


def _read_day_first(
    text: str, stripped: str, length: int, read: Callable[[str], date | None]
) -> WrittenTime | None:
    """Read a date at the start and a time of day after it.

    When other text follows, such as the letters of a zone, only the day is set and the time is
    shown as written.
    """
    rest = stripped[length:]
    try:
        day = read(stripped[:length])
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


def _one_meaning(stripped: str) -> date | None:
    """Return a date whose month and day cannot be exchanged, else None; raises ValueError."""
    first, second, year = map(int, re.split(r"[/.-]", stripped))
    month, day = (second, first) if first > 12 else (first, second)
    return date(year, month, day) if day > 12 or day == month else None


def _time_of_day(text: str) -> time | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, half = int(match[1]), (match[4] or "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    try:
        return time(hour, int(match[2]), int(match[3] or 0))
    except ValueError:
        return None


def _is_plausible(day: date) -> bool:
    return EARLIEST <= day.year <= LATEST
