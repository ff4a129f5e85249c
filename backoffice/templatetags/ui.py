"""Template tags of the design system: badges, times, ids, money, icons."""

from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from html import escape
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django import template
from django.forms import BoundField
from django.http import QueryDict
from django.template import Context
from django.utils import timezone
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString

from backoffice.core import access, phone_numbers, vocabulary
from backoffice.core.urls import record_url
from backoffice.pages.form_controls import choices_of
from backoffice.service.written_times import Precision, WrittenTime, read_written_time
from backoffice.templatetags.ages import (
    MONTHS,
    ago,
    calendar_day,
    hour,
    spoken,
    years,
    zone_name,
    zone_of,
)
from backoffice.templatetags.shapes import COPY, copy_icon, glyph_svg, icon_svg

register = template.Library()

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
    """`{% badge "appointment.status" appointment.status %}`: glyph and word, raw value on hover."""
    if not value:
        return DASH
    return _badge(vocabulary.term(name, value), value, bare)


@register.simple_tag
def order_badge(low_level_status: str, method: str, bucket: str, bare: bool = False) -> SafeString:
    """Status of an order: words from status and method, family from its stored bucket."""
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
    """What a line of a result means: word and shape, the word as received where it is another
    one, and the lab's own flag."""
    return {
        "reading": reading or "",
        "side": side or ("high" if above else "low" if below else ""),
        "word": word or "",
        "source": source or "",
    }


@register.simple_tag
def event_status_differs(status: str, event_status: str) -> bool:
    """True when the two states of an appointment do not say the same (appointments.md 6)."""
    told = vocabulary.term("appointment.status", status).label
    return bool(event_status) and (
        vocabulary.term("appointment.event_status", event_status).label != told
    )


@register.simple_tag
def turn(low_level_status: str, method: str) -> SafeString | str:
    """Who acts next on an order: `Patient`, `Lab`, `Us`; a dash when nobody does."""
    whose = vocabulary.order_term(low_level_status, method, ()).turn
    return whose.removeprefix("the ").capitalize() or DASH


@register.simple_tag
def words(name: str, value: str | None) -> str:
    """The label alone; a dash when there is no value."""
    return vocabulary.term(name, value).label or DASH


@register.filter
def list_name(resource: str) -> str:
    """Words for a list of the service or a kind of look-up."""
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
    """An instant in `zone` (IANA name; the staff member's own when missing or not known)."""
    if moment is None:
        return DASH
    now = timezone.now()
    local = moment.astimezone(zone_of(zone) or timezone.get_current_timezone())
    shown = _time(moment, spoken(local, now.astimezone(local.tzinfo)))
    if not relative:
        return shown
    return SafeString(f'{shown} <span class="muted nowrap">{ago(moment, now)}</span>')


def _time(moment: datetime, text: str) -> SafeString:
    """Not with `format_html`, like all that stands in rows of lists: a list says hundreds. The
    text is ours."""
    return SafeString(f'<time datetime="{moment.astimezone(UTC).isoformat()}">{text}</time>')


@register.filter
def day(value: date | None) -> SafeString:
    """A calendar date: `11 Nov 2026`."""
    if not value:
        return DASH
    written = f"{value.year}-{value.month:02}-{value.day:02}"
    return SafeString(f'<time datetime="{written}" class="nowrap">{calendar_day(value)}</time>')


@register.filter
def written_time(sent: str | WrittenTime | None) -> SafeString | str:
    """A time that a laboratory wrote: an instant like every other time, else as written, whatever
    the zone of the staff member."""
    found = sent if isinstance(sent, WrittenTime) else read_written_time(sent)
    if found.instant is not None:
        return when(found.instant)
    if found.local is None:
        return written_day(found)
    text = f"{calendar_day(found.local)}, {hour(found.local)}"
    return SafeString(
        f'<time datetime="{found.local.isoformat()}" title="As received: {escape(found.text)}">'
        f'{text}</time> <span class="muted nowrap">lab’s local time</span>'
    )


@register.filter
def written_day(sent: str | WrittenTime | None) -> SafeString | str:
    """The same, for tight places: the day alone; what has no known day as written."""
    found = sent if isinstance(sent, WrittenTime) else read_written_time(sent)
    if found.instant is not None:
        return local_day(found.instant)
    if found.precision is Precision.NONE:
        return dash(found.text.strip())  # type: ignore[no-any-return]
    return day(found.day)


@register.filter
def local_day(moment: datetime | None) -> SafeString:
    """The calendar date of an instant in the staff member's zone."""
    return day(timezone.localtime(moment).date() if moment else None)


@register.filter
def long_day(value: date) -> str:
    """Heading of a day: `Tuesday 11 November`, with the year when it is another one."""
    year = "" if value.year == timezone.localdate().year else f" {value.year}"
    return f"{value:%A} {value.day} {value:%B}{year}"


@register.filter
def short_day(moment: datetime | None, zone: tzinfo | None = None) -> SafeString | str:
    """`11 Nov, 08:00` in the staff member's zone, for tight places. Whoever says many gives it."""
    if moment is None:
        return DASH
    local = moment.astimezone(zone or timezone.get_current_timezone())
    return _time(moment, f"{local.day} {MONTHS[local.month]}, {hour(local)}")


@register.simple_tag
def your_time(moment: datetime | None, zone: str | None) -> SafeString | str:
    """The staff clock beside a time shown elsewhere; nothing when both clocks agree."""
    place = zone_of(zone)
    if moment is None or place is None:
        return ""
    here = timezone.localtime(moment)
    if here.utcoffset() == moment.astimezone(place).utcoffset():
        return ""
    text = spoken(here, timezone.localtime())
    return format_html('<p class="muted small">For you: {}</p>', text)


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    """`08:00` in the staff member's zone, for lists already grouped by day."""
    if moment is None:
        return DASH
    return _time(moment, hour(timezone.localtime(moment)))


@register.filter
def since(moment: datetime | None, now: datetime | None = None) -> str:
    """`3 d ago`. Whoever says many gives the moment from which they count."""
    return DASH if moment is None else ago(moment, now or timezone.now())


@register.filter
def age(born: date | None, today: date | None = None) -> str:
    """`42 y`; months for the first two years. Whoever says many gives the day."""
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
    """The time of day somewhere else, with its zone: before one calls."""
    place = zone_of(zone)
    if place is None:
        return zone
    local = timezone.now().astimezone(place)
    return f"{local:%a %H:%M} {zone_name(local)}"


# Values


@register.filter
def dash(value: Any) -> Any:
    """The value; an em dash when it is missing. Zero and False are values."""
    return DASH if value is None or value == "" else value


def or_dash(value: str | None) -> str:
    """As HTML; a dash when it is missing."""
    return escape(value) if value else DASH


@register.filter
def yes_no(value: bool | None) -> str:
    return DASH if value is None else ("Yes" if value else "No")


@register.filter
def money(value: str | float | Decimal | None) -> str:
    """`$1,240.00`; a price that is not a number stays as it came."""
    if value is None or value == "":
        return DASH
    try:
        return f"${Decimal(str(value)):,.2f}"
    except InvalidOperation:
        return str(value)


@register.filter
def cents(value: float | None) -> str:
    """Money that came in cents: `$49.00`."""
    return money(None if value is None else Decimal(str(value)) / 100)


@register.filter
def phone(value: str | None) -> SafeString | str:
    """A number to read and to call: `(555) 010-0165`; what is none as it is."""
    if not value:
        return DASH
    words, number = phone_numbers.display_and_dial(value)
    if not number:
        return value
    return SafeString(f'<a class="nowrap" href="tel:{number}">{escape(words)}</a>')


@register.filter
def coded(value: str) -> str:
    """`NOT_DETECTED` as words: `Not detected`."""
    return value.replace("_", " ").capitalize()


@register.filter
def is_web_address(value: object) -> bool:
    """Only these become links: a record may hold anything."""
    return isinstance(value, str) and value.startswith(("https://", "http://"))


@register.filter
def thousands(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


@register.filter
def initials(value: str | None) -> str:
    """Initials, for roles that do not see names; of a key without its other spellings."""
    name = (value or "").strip().partition("  ")[0]
    return " ".join(f"{part[0].upper()}." for part in name.split()) or DASH


@register.simple_tag
def short_id(value: object, copy: bool = True) -> SafeString:
    """First 8 characters of an id; all of it on hover and in the copy button."""
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
    """Where a value lies in its reference band: track, band and mark; an open band runs out.

    The band takes the middle of the bar; a value beyond the bar is an arrow at its edge.
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
        drawn = format_html('<path class="{}" d="{}"/>', state, arrow)
    else:
        place = f"{min(max(mark, 4), 92):.1f}"
        drawn = format_html('<circle class="{}" cx="{}" cy="6" r="4"/>', state, place)
    return format_html(
        '<svg class="range" viewBox="0 0 96 12" aria-hidden="true">'
        '<rect class="track" x="0" y="4" width="96" height="4" rx="2"/>'
        '<rect class="band" x="{}" y="4" width="{}" height="4" rx="2"/>'
        "{}</svg>",
        f"{left:.1f}",
        f"{max(right - left, 0):.1f}",
        drawn,
    )


# Forms


@register.simple_tag
def field(bound: BoundField, optional: bool = False) -> SafeString:
    """A field of a form: label, control, hint, errors. `optional`: say so where it is."""
    key, marked = bound.auto_id, ""
    if optional and not bound.field.required:
        marked = ' <span class="optional">(optional)</span>'
    told = ""
    if bound.help_text:
        told = f'<p class="hint" id="{key}_helptext">{conditional_escape(bound.help_text)}</p>'
    told += "".join(errors_of(bound, f' id="{key}_error"'))
    return SafeString(
        f'<div class="field">\n  <label for="{bound.id_for_label}">'
        f"{conditional_escape(bound.label)}{marked}</label>\n  {bound}\n  {told}\n</div>"
    )


def errors_of(bound: BoundField, attributes: str = "") -> list[str]:
    return [
        f'<p class="error" data-st="needs-action"{attributes}>'
        f"{glyph_svg('warning')}{conditional_escape(str(error))}</p>"
        for error in bound.errors
    ]


@register.simple_tag
def ticks(bound: BoundField) -> SafeString:
    """Tick boxes of a multiple choice."""
    return SafeString("".join(tick_boxes(bound)))


def tick_boxes(bound: BoundField) -> list[str]:
    """A box for each known value, and for whatever else was asked for."""
    chosen = [str(value) for value in bound.value() or ()]
    known = {str(value): str(label) for value, label in choices_of(bound.field)}
    others = {value: value for value in chosen if value not in known}
    name = escape(bound.html_name)
    return [
        f'<label class="check"><input type="checkbox" name="{name}" value="{escape(value)}"'
        f"{' checked' if value in chosen else ''}><span>{escape(label)}</span></label>"
        for value, label in {**known, **others}.items()
    ]


# Addresses


register.simple_tag(record_url)


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: Any) -> str:
    """This page's query with some parameters replaced (None or empty removes), starting at `?`.

    The place in the list (`after`, `before`, `at`) is dropped: another filter is another list.
    """
    return address_with(context["request"].GET, **changes)


def address_with(given: QueryDict, **changes: Any) -> str:
    dropped = {"after", "before", "at", "panel", *changes}
    kept = [written for name, written in _written(given) if name not in dropped]
    new = [(name, value) for name, value in changes.items() if value not in (None, "")]
    return f"?{'&'.join(filter(None, [*kept, urlencode(new, doseq=True)]))}"


def _written(given: QueryDict) -> list[tuple[str, str]]:
    """The parameters of a page as they stand in an address: a list leads to dozens like its own."""
    known: list[tuple[str, str]] | None = vars(given).get("_written")
    if known is None:
        known = [(name, urlencode({name: values}, doseq=True)) for name, values in given.lists()]
        if not given._mutable:
            vars(given)["_written"] = known
    return known


@register.simple_tag(takes_context=True)
def query_without(context: Context, name: str, value: str) -> str:
    """This page's query without one value of a parameter: what a removable chip links to."""
    return address_without(context["request"].GET, name, value)


def address_without(given: QueryDict, name: str, value: str) -> str:
    return address_with(given, **{name: [one for one in given.getlist(name) if one != value]})


@register.filter
def may(user: Any, permission: str) -> bool:
    """`{% if request.user|may:"results.view" %}`."""
    return access.may(user, permission)
