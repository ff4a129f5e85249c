"""How times and ages are said, whatever shows them."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final
from zoneinfo import ZoneInfo

# As `strftime` says them, in a tenth of its time: a page of a list says a hundred.
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = (
    *("", "Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


def hour(moment: datetime) -> str:
    """`08:00`."""
    return f"{moment.hour:02}:{moment.minute:02}"


def weekday(moment: datetime) -> str:
    """`Tue 11 Nov`."""
    return f"{DAYS[moment.weekday()]} {moment.day} {MONTHS[moment.month]}"


def calendar_day(day: date) -> str:
    """`11 Nov 2026`."""
    return f"{day.day} {MONTHS[day.month]} {day.year}"


def zone_name(moment: datetime) -> str:
    """MST, CET … or UTC−03 where the zone has no letters of its own."""
    name = moment.tzname() or ""
    return f"UTC{name.replace('-', '−')}" if name[:1] in "+-" else name


def spoken(moment: datetime, now: datetime) -> str:
    """`Tue 11 Nov, 08:00 MST`; the year only when it is another one."""
    year = "" if moment.year == now.year else f" {moment.year}"
    return f"{weekday(moment)}{year}, {hour(moment)} {zone_name(moment)}"


def ago(moment: datetime, now: datetime) -> str:
    """`3 d ago`, `in 2 h`: one unit, for beside an absolute time."""
    seconds = (now - moment).total_seconds()
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if size >= length:
            text = f"{int(size // length)} {unit}"
            return f"{text} ago" if seconds >= 0 else f"in {text}"
    return "just now"


_NO_PLACES: Final = frozenset(("localtime", "posixrules", "Factory", "leapseconds"))


def zone_of(name: str | None) -> ZoneInfo | None:
    """The zone of an IANA name; None when there is none of that name.

    Files of the system that are no zones of a place, such as `localtime`, are none either.
    """
    try:
        return ZoneInfo(name) if name and name not in _NO_PLACES and "right/" not in name else None
    except (LookupError, ValueError, OSError):
        return None


def years(born: date, today: date) -> int:
    """Completed years; somebody born on 29 February grows older on 1 March."""
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))
