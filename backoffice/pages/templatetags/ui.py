"""Template tags of the design system: badges, times, ids, money, icons."""

from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from html import escape
from typing import Any, Final
from uuid import UUID

from django import template
from django.forms import BoundField
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from backoffice.accounts import access
from backoffice.core import phone_numbers, vocabulary
from backoffice.core.time_formats import (
    MONTHS,
    ago,
    calendar_day,
    hour,
    spoken,
    years,
    zone_name,
    zone_of,
)
from backoffice.core.urls import record_url
from backoffice.pages.form_fields import field, tick_boxes
from backoffice.pages.icons import COPY, copy_icon, glyph_svg, icon_svg
from backoffice.pages.query_strings import address_with, address_without
from backoffice.service.written_times import Precision, WrittenTime, read_written_time

register = template.Library()
register.simple_tag(field)

DASH: Final = SafeString('<span class="muted" aria-label="not given">—</span>')
HIDDEN: Final = SafeString(
    '<span class="muted" tabindex="0" title="Your role does not show this">•••'
    '<span class="sr"> not shown to your role</span></span>'
)


# Statuses and words


@lru_cache(maxsize=1024)
def _badge(item: vocabulary.Term, title: str, bare: bool) -> SafeString:
    return format_html(
        '<span class="{}" data-st="{}" title="{}">{}{}</span>',
        "st bare" if bare else "st",
        item.family,
        title,
        glyph_svg(item.glyph),
        item.label,
    )


@register.simple_tag
def badge(name: str, value: str | None, bare: bool = False) -> SafeString:
    """Render a status with its glyph: `{% badge "appointment.status" appointment.status %}`.

    The raw value is in the tooltip.
    """
    if not value:
        return DASH
    return _badge(vocabulary.term(name, value), value, bare)


@register.simple_tag
def order_badge(low_level_status: str, method: str, bucket: str, bare: bool = False) -> SafeString:
    """Render the status of an order.

    The words depend on status and method. The color family is the stored status group.
    """
    item = vocabulary.order_term(low_level_status, method, ())
    if bucket and bucket != item.family:
        item = vocabulary.Term(
            item.value, item.label, bucket, vocabulary.GLYPHS.get(bucket, "question")
        )
    return _badge(item, low_level_status or "no status", bare)


@register.inclusion_tag("components/result_flag.html")
def flag(
    reading: str | None,
    side: str | None = "",
    word: str | None = "",
    source: str | None = "",
    above: bool | None = None,
    below: bool | None = None,
) -> dict[str, str]:
    """Render the flag of a result line: word and shape, and the lab's own flag.

    The word as received is added if it differs.
    """
    return {
        "reading": reading or "",
        "side": side or ("high" if above else "low" if below else ""),
        "word": word or "",
        "source": source or "",
    }


@register.simple_tag
def event_status_differs(status: str, event_status: str) -> bool:
    """Return whether the two statuses of an appointment differ in meaning (appointments.md 6)."""
    label = vocabulary.term("appointment.status", status).label
    return bool(event_status) and (
        vocabulary.term("appointment.event_status", event_status).label != label
    )


@register.simple_tag
def turn(low_level_status: str, method: str) -> SafeString | str:
    """Return who acts next on an order: `Patient`, `Lab` or `Us`; a dash if nobody does."""
    actor = vocabulary.order_term(low_level_status, method, ()).turn
    return actor.removeprefix("the ").capitalize() or DASH


@register.simple_tag
def words(name: str, value: str | None) -> str:
    """Return the label of a value; a dash if there is no value."""
    return vocabulary.term(name, value).label or DASH


@register.filter
def list_name(resource: str) -> str:
    """Return the label of a list of the service or of a kind of lookup."""
    return vocabulary.LISTS.get(resource, resource)


@register.simple_tag
def glyph(name: str) -> SafeString:
    return glyph_svg(name)


@register.simple_tag
def icon(name: str, large: bool = False) -> SafeString:
    return icon_svg(name, large)


register.simple_tag(copy_icon)


# Times


@register.simple_tag
def when(
    moment: datetime | None, zone: str | None = None, relative: bool = False
) -> SafeString | str:
    """Render an instant in `zone`, an IANA name.

    Without a known zone it is the staff member's own.
    """
    if moment is None:
        return DASH
    now = timezone.now()
    local = moment.astimezone(zone_of(zone) or timezone.get_current_timezone())
    time_html = _time(moment, spoken(local, now.astimezone(local.tzinfo)))
    if not relative:
        return time_html
    return SafeString(f'{time_html} <span class="muted nowrap">{ago(moment, now)}</span>')


def _time(moment: datetime, text: str) -> SafeString:
    """Render a time element. The caller must pass safe text.

    It does not use `format_html`, which is slow for the hundreds of times in a list.
    """
    return SafeString(f'<time datetime="{moment.astimezone(UTC).isoformat()}">{text}</time>')


@register.filter
def day(value: date | None) -> SafeString:
    """Render a calendar date: `11 Nov 2026`."""
    if not value:
        return DASH
    iso_date = f"{value.year}-{value.month:02}-{value.day:02}"
    return SafeString(f'<time datetime="{iso_date}" class="nowrap">{calendar_day(value)}</time>')


@register.filter
def written_time(sent: str | WrittenTime | None) -> SafeString | str:
    """Render a time that a laboratory wrote.

    An instant is shown like every other time. Any other time is shown as written, whatever the
    staff member's zone.
    """
    time = sent if isinstance(sent, WrittenTime) else read_written_time(sent)
    if time.instant is not None:
        return when(time.instant)
    if time.local is None:
        return written_day(time)
    text = f"{calendar_day(time.local)}, {hour(time.local)}"
    return SafeString(
        f'<time datetime="{time.local.isoformat()}" title="As received: {escape(time.text)}">'
        f'{text}</time> <span class="muted nowrap">lab’s local time</span>'
    )


@register.filter
def written_day(sent: str | WrittenTime | None) -> SafeString | str:
    """Render only the day of a time that a laboratory wrote; text without a day as written."""
    time = sent if isinstance(sent, WrittenTime) else read_written_time(sent)
    if time.instant is not None:
        return local_day(time.instant)
    if time.precision is Precision.NONE:
        return dash(time.text.strip())  # type: ignore[no-any-return]
    return day(time.day)


@register.filter
def local_day(moment: datetime | None) -> SafeString:
    """Render the calendar date of an instant in the staff member's zone."""
    return day(timezone.localtime(moment).date() if moment else None)


@register.filter
def long_day(value: date) -> str:
    """Format a date as a heading: `Tuesday 11 November`. The current year is left out."""
    year = "" if value.year == timezone.localdate().year else f" {value.year}"
    return f"{value:%A} {value.day} {value:%B}{year}"


@register.filter
def short_day(moment: datetime | None, zone: tzinfo | None = None) -> SafeString | str:
    """Render a short time in the staff member's zone: `11 Nov, 08:00`.

    Code that renders many times should pass the zone.
    """
    if moment is None:
        return DASH
    local = moment.astimezone(zone or timezone.get_current_timezone())
    return _time(moment, f"{local.day} {MONTHS[local.month]}, {hour(local)}")


@register.simple_tag
def your_time(moment: datetime | None, zone: str | None) -> SafeString | str:
    """Render a time in the staff member's zone, next to the same time in another zone.

    Empty if both zones have the same offset at that time.
    """
    place = zone_of(zone)
    if moment is None or place is None:
        return ""
    local = timezone.localtime(moment)
    if local.utcoffset() == moment.astimezone(place).utcoffset():
        return ""
    text = spoken(local, timezone.localtime())
    return format_html('<p class="muted small">For you: {}</p>', text)


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    """Render `08:00` in the staff member's zone, for lists that are grouped by day."""
    if moment is None:
        return DASH
    return _time(moment, hour(timezone.localtime(moment)))


@register.filter
def since(moment: datetime | None, now: datetime | None = None) -> str:
    """Format the time since an instant: `3 d ago`. Code that formats many should pass `now`."""
    return DASH if moment is None else ago(moment, now or timezone.now())


@register.filter
def age(born: date | None, today: date | None = None) -> str:
    """Format an age: `42 y`; in months below two years. Code that formats many passes `today`."""
    if not born:
        return DASH
    today = today or timezone.localdate()
    if years(born, today) >= 2:
        return f"{years(born, today)} y"
    months = (today.year - born.year) * 12 + today.month - born.month - (today.day < born.day)
    return f"{max(months, 0)} mo"


@register.filter
def is_minor(born: date | None) -> bool:
    return years(born, timezone.localdate()) < 18 if born else False


@register.simple_tag
def clock_in(zone: str) -> str:
    """Return the current time in another zone, with its name. Staff check it before a call."""
    place = zone_of(zone)
    if place is None:
        return zone
    local = timezone.now().astimezone(place)
    return f"{local:%a %H:%M} {zone_name(local)}"


# Values


@register.filter
def dash(value: Any) -> Any:
    """Return the value, or an em dash if it is missing. Zero and False are values."""
    return DASH if value is None or value == "" else value


def or_dash(value: str | None) -> str:
    """Return the value escaped as HTML, or a dash if it is missing."""
    return escape(value) if value else DASH


@register.filter
def yes_no(value: bool | None) -> str:
    return DASH if value is None else ("Yes" if value else "No")


@register.filter
def money(value: str | float | Decimal | None) -> str:
    """Format a price: `$1,240.00`. Text that is not a number is returned as received."""
    if value is None or value == "":
        return DASH
    try:
        return f"${Decimal(str(value)):,.2f}"
    except InvalidOperation:
        return str(value)


@register.filter
def cents(value: float | None) -> str:
    """Format a price in cents: `$49.00`."""
    return money(None if value is None else Decimal(str(value)) / 100)


@register.filter
def phone(value: str | None) -> SafeString | str:
    """Render a phone number as a link to call it: `(555) 010-0165`.

    Text that is not a phone number is returned unchanged.
    """
    if not value:
        return DASH
    words, number = phone_numbers.display_and_dial(value)
    if not number:
        return value
    return SafeString(f'<a class="nowrap" href="tel:{number}">{escape(words)}</a>')


@register.filter
def coded(value: str) -> str:
    """Format a code such as `NOT_DETECTED` as words: `Not detected`."""
    return value.replace("_", " ").capitalize()


@register.filter
def is_web_address(value: object) -> bool:
    """Return whether a value may become a link, because a record may contain any text."""
    return isinstance(value, str) and value.startswith(("https://", "http://"))


@register.filter
def thousands(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


@register.filter
def initials(value: str | None) -> str:
    """Return initials, for roles that do not see names.

    In a name key, the other spellings follow after two spaces. They are ignored.
    """
    name = (value or "").strip().partition("  ")[0]
    return " ".join(f"{part[0].upper()}." for part in name.split()) or DASH


@register.simple_tag
def short_id(value: object, copy: bool = True) -> SafeString:
    """Render the first 8 characters of an id. The tooltip and the copy button have all of it."""
    whole = str(value or "")
    if not whole:
        return DASH
    text, short = whole, whole[:8] if len(whole) == 36 else whole
    if not isinstance(value, UUID):
        text, short = escape(text), escape(short)
    button = ""
    if copy:
        button = (
            f'<button type="button" data-copy="{text}" aria-label="Copy {short}">{COPY}</button>'
        )
    return SafeString(f'<span class="id" title="{text}">{short}{button}</span>')


@register.simple_tag
def range_bar(value: float | None, low: float | None, high: float | None) -> SafeString | str:
    """Render the position of a value relative to its reference range: track, band and mark.

    The band is in the middle of the bar. With only one limit it continues to the end of the bar. A
    value beyond the bar is an arrow at its edge.
    """
    if value is None or (low is None and high is None):
        return ""
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
    beyond = (low is not None and value < low) or (high is not None and value > high)
    state = "mark out" if beyond else "mark"
    if value < start or value > start + unit:
        arrow = "M6 1v10L0 6z" if value < start else "M90 1v10l6-5z"
        mark_svg = format_html('<path class="{}" d="{}"/>', state, arrow)
    else:
        place = f"{min(max(mark, 4), 92):.1f}"
        mark_svg = format_html('<circle class="{}" cx="{}" cy="6" r="4"/>', state, place)
    return format_html(
        '<svg class="range" viewBox="0 0 96 12" aria-hidden="true">'
        '<rect class="track" x="0" y="4" width="96" height="4" rx="2"/>'
        '<rect class="band" x="{}" y="4" width="{}" height="4" rx="2"/>'
        "{}</svg>",
        f"{left:.1f}",
        f"{max(right - left, 0):.1f}",
        mark_svg,
    )


# Forms


@register.simple_tag
def ticks(bound: BoundField) -> SafeString:
    """Render the checkboxes of a multiple choice field."""
    return SafeString("".join(tick_boxes(bound)))


# URLs


register.simple_tag(record_url)


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """Return the query string of this page with some parameters replaced. It begins with `?`.

    None or an empty value removes a parameter. The position in the list (`after`, `before`, `at`)
    is dropped, because it is not valid for another filter.
    """
    return address_with(context["request"].GET, **changes)


@register.simple_tag(takes_context=True)
def query_without(context: Context, name: str, value: str) -> str:
    """Return the query string of this page without one value of a parameter.

    The link that removes a filter uses it.
    """
    return address_without(context["request"].GET, name, value)


@register.filter
def may(user: Any, permission: str) -> bool:
    """Return whether a user has a permission: `{% if request.user|may:"results.view" %}`."""
    return access.may(user, permission)
