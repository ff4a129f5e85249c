"""Formats of values on pages, as plain text. A missing value is an empty text.

Formats of times are in `backoffice.core.time_formats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation

from django.utils import timezone
from django.utils.translation import gettext

from backoffice.core import time_formats, vocabulary
from backoffice.core.time_formats import (
    SHORT_DAYS,
    hour,
    short_day,
    spoken,
    years,
    zone_name,
    zone_of,
)
from backoffice.service.written_times import WrittenTime, read_written_time


def translated(text: str | None) -> str:
    """Return a constant, which Python marked for translation, in the reader's language."""
    return gettext(text) if text else ""


def order_term(low_level_status: str, method: str, bucket: str) -> vocabulary.Term:
    """Return the term of an order's status, with the color family of its stored status group."""
    term = vocabulary.order_term(low_level_status, method, ())
    if not bucket or bucket == term.family:
        return term
    glyph = vocabulary.GLYPHS.get(bucket, "question")
    return vocabulary.Term(term.value, term.label, bucket, glyph)


def age(born: date | None, today: date | None = None) -> str:
    """Format an age: `42 y`; in months below two years. Code that formats many passes `today`."""
    if not born:
        return ""
    today = today or timezone.localdate()
    if years(born, today) >= 2:
        return gettext("%(count)d y") % {"count": years(born, today)}
    months = (today.year - born.year) * 12 + today.month - born.month - (today.day < born.day)
    return gettext("%(count)d mo") % {"count": max(months, 0)}


def is_minor(born: date | None) -> bool:
    return years(born, timezone.localdate()) < 18 if born else False


def since(moment: datetime | None, now: datetime | None = None) -> str:
    """Format the time since an instant: `3 days ago`. Code that formats many should pass `now`."""
    return "" if moment is None else time_formats.ago(moment, now or timezone.now())


def full_time(moment: datetime, zone: str | None = None) -> str:
    """Format an instant with its zone: `Wed, Nov 25, 11:23 AM EST`.

    Without a known zone it is the staff member's own.
    """
    local = moment.astimezone(zone_of(zone) or timezone.get_current_timezone())
    return spoken(local, timezone.now().astimezone(local.tzinfo))


def short_time(moment: datetime, zone: tzinfo | None = None) -> str:
    """Format a time in the staff member's zone: `Nov 25, 11:23 AM`.

    Code that formats many times should pass the zone.
    """
    local = moment.astimezone(zone or timezone.get_current_timezone())
    return f"{short_day(local)}, {hour(local)}"


def dense_time(moment: datetime, zone: tzinfo, today: date) -> str:
    """Format a time for a dense row: `11:23 AM` today, `Nov 25`, or `Nov 25, 2025`."""
    local = moment.astimezone(zone)
    if local.date() == today:
        return hour(local)
    return short_day(local) if local.year == today.year else time_formats.calendar_day(local)


def clock_time(moment: datetime) -> str:
    """Format a time of day in the staff member's zone: `8:00 AM`."""
    return hour(timezone.localtime(moment))


def own_time(moment: datetime | None, zone: str | None) -> str:
    """Format a time in the staff member's zone, to show next to the same time in another zone.

    Empty if both zones have the same offset at that time.
    """
    place = zone_of(zone)
    if moment is None or place is None:
        return ""
    local = timezone.localtime(moment)
    if local.utcoffset() == moment.astimezone(place).utcoffset():
        return ""
    return spoken(local, timezone.localtime())


def zone_clock(zone: str) -> str:
    """Return the current time in another zone, with its name. Staff check it before a call."""
    place = zone_of(zone)
    if place is None:
        return zone
    local = timezone.now().astimezone(place)
    return f"{SHORT_DAYS[local.weekday()]}, {hour(local)} {zone_name(local)}"


def long_day(value: date) -> str:
    """Format a date as a heading: `Wednesday, November 25`. The current year is left out."""
    return time_formats.long_day(value, year=value.year != timezone.localdate().year)


def full_day(value: date) -> str:
    """Format a date as a heading, with its year: `Wednesday, November 25, 2026`."""
    return time_formats.long_day(value, year=True)


def exact_time(moment: datetime) -> str:
    """Format an instant to the second: `Nov 25, 2026, 8:00:07 AM EST`."""
    local = timezone.localtime(moment)
    clock = time_formats.hour_with_seconds(local)
    return f"{time_formats.calendar_day(local)}, {clock} {zone_name(local)}"


def local_date(moment: datetime | None) -> date | None:
    """Return the calendar date of an instant in the staff member's zone."""
    return timezone.localtime(moment).date() if moment else None


def utc_iso(moment: datetime) -> str:
    """Format an instant for the `datetime` attribute of a time element."""
    return moment.astimezone(UTC).isoformat()


def iso_day(value: date) -> str:
    """Format a date, or that of a datetime, for the `datetime` attribute of a time element."""
    return f"{value.year}-{value.month:02}-{value.day:02}"


def written_time(sent: str | WrittenTime | None) -> WrittenTime:
    return sent if isinstance(sent, WrittenTime) else read_written_time(sent)


def money(value: str | float | Decimal | None) -> str:
    """Format a price: `$1,240.00`. Text that is not a number is returned as received."""
    if value is None or value == "":
        return ""
    try:
        return f"${Decimal(str(value)):,.2f}"
    except InvalidOperation:
        return str(value)


def cents(value: float | None) -> str:
    """Format a price in cents: `$49.00`."""
    return money(None if value is None else Decimal(str(value)) / 100)


def thousands(value: int | None) -> str:
    """Format a number: `1,240`."""
    return "" if value is None else f"{value:,}"


def initials(value: str | None) -> str:
    """Return initials, for roles that do not see names.

    In a name key, the other spellings follow after two spaces. They are ignored.
    """
    name = (value or "").strip().partition("  ")[0]
    return " ".join(f"{part[0].upper()}." for part in name.split())


def yes_no(value: bool | None) -> str:
    return "" if value is None else (gettext("Yes") if value else gettext("No"))


def coded(value: str) -> str:
    """Format a code such as `NOT_DETECTED` as words: `Not detected`."""
    return value.replace("_", " ").capitalize()


def list_name(resource: str) -> str:
    """Return the label of a list of the service or of a kind of lookup."""
    return gettext(vocabulary.LISTS.get(resource, resource))


def next_actor_word(low_level_status: str, method: str) -> str:
    """Return who acts next on an order: `Patient`, `Lab` or `Clinic`; empty if nobody does."""
    return vocabulary.order_term(low_level_status, method, ()).actor_label


def event_status_differs(status: str, event_status: str) -> bool:
    """Return whether the two statuses of an appointment differ in meaning (appointments.md 6)."""
    label = vocabulary.term("appointment.status", status).label
    return bool(event_status) and (
        vocabulary.term("appointment.event_status", event_status).label != label
    )


@dataclass(frozen=True, slots=True)
class RangeBar:
    """A value and its reference range on a bar of 96 by 12 pixels.

    `left` and `width` are those of the band. `mark` is the position of the value; None if it is
    beyond the bar, on the side that `is_below` names. `is_out`: the value is outside its range.
    """

    left: str
    width: str
    mark: str | None
    is_below: bool
    is_out: bool


def range_geometry(value: float | None, low: float | None, high: float | None) -> RangeBar | None:
    """Return the bar of a value; None without a value or without a limit.

    The band is in the middle of the bar. With only one limit it continues to the end of the bar.
    """
    if value is None or (low is None and high is None):
        return None
    if low is not None and high is not None:
        span = (high - low) or abs(high) or 1
        start, unit = low - span / 2, span * 2
    else:
        edge = high if low is None else low
        unit = 2 * (abs(edge or 0) or 1)
        start = (edge or 0) - unit * (0.75 if low is None else 0.25)
    left, right, mark = (
        min(max((at - start) / unit * 96, 0), 96)
        for at in (start if low is None else low, start + unit if high is None else high, value)
    )
    is_beyond_bar = not start <= value <= start + unit
    return RangeBar(
        left=f"{left:.1f}",
        width=f"{max(right - left, 0):.1f}",
        mark=None if is_beyond_bar else f"{min(max(mark, 4), 92):.1f}",
        is_below=value < start,
        is_out=(low is not None and value < low) or (high is not None and value > high),
    )


def is_web_address(value: object) -> bool:
    """Return whether a value may become a link, because a record may contain any text."""
    return isinstance(value, str) and value.startswith(("https://", "http://"))
