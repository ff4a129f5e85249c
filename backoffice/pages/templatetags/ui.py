"""Template tags of the design system: badges, times, ids, money, icons.

They are for Django templates that are not converted to Jinja yet, and have the HTML of the macros.
"""

from datetime import date, datetime
from decimal import Decimal
from html import escape
from typing import Any, Final

from django import template
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from backoffice.accounts import access
from backoffice.core import vocabulary
from backoffice.core.urls import record_url
from backoffice.pages import formats
from backoffice.pages.form_fields import checkboxes, field
from backoffice.pages.icons import glyph_svg, icon_svg
from backoffice.pages.macros import render_macro
from backoffice.pages.query_strings import address_with, address_without
from backoffice.service.written_times import WrittenTime

register = template.Library()
register.simple_tag(field)

_STATUS: Final = "macros/status.html"
_TIMES: Final = "macros/times.html"
_VALUES: Final = "macros/values.html"
DASH: Final = SafeString('<span class="muted" aria-label="not given">—</span>')
HIDDEN: Final = SafeString(
    '<span class="muted" tabindex="0" title="Your role does not show this">•••'
    '<span class="sr"> not shown to your role</span></span>'
)


# Statuses and words


@register.simple_tag
def badge(name: str, value: str | None, bare: bool = False) -> SafeString:
    """Render a status with its glyph: `{% badge "appointment.status" appointment.status %}`.

    The raw value is in the tooltip.
    """
    return render_macro(_STATUS, "badge", name, value, bare)


@register.simple_tag
def order_badge(low_level_status: str, method: str, bucket: str, bare: bool = False) -> SafeString:
    """Render the status of an order.

    The words depend on status and method. The color family is the stored status group.
    """
    return render_macro(_STATUS, "order_badge", low_level_status, method, bucket, bare)


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


@register.simple_tag
def copy_icon() -> SafeString:
    return render_macro("macros/icons.html", "copy_symbol")


# Times


@register.simple_tag
def when(moment: datetime | None, zone: str | None = None, relative: bool = False) -> SafeString:
    """Render an instant in `zone`, an IANA name.

    Without a known zone it is the staff member's own.
    """
    return render_macro(_TIMES, "full_time", moment, zone, relative)


@register.filter
def day(value: date | None) -> SafeString:
    """Render a calendar date: `11 Nov 2026`."""
    return render_macro(_TIMES, "day", value)


@register.filter
def written_time(sent: str | WrittenTime | None) -> SafeString:
    """Render a time that a laboratory wrote.

    An instant is shown like every other time. Any other time is shown as written, whatever the
    staff member's zone.
    """
    return render_macro(_TIMES, "written_time", sent)


@register.filter
def written_day(sent: str | WrittenTime | None) -> SafeString:
    """Render only the day of a time that a laboratory wrote; text without a day as written."""
    return render_macro(_TIMES, "written_day", sent)


@register.filter
def local_day(moment: datetime | None) -> SafeString:
    """Render the calendar date of an instant in the staff member's zone."""
    return render_macro(_TIMES, "local_day", moment)


long_day = register.filter(formats.long_day)


@register.filter
def short_day(moment: datetime | None) -> SafeString:
    """Render a short time in the staff member's zone: `11 Nov, 08:00`."""
    return render_macro(_TIMES, "short_time", moment)


@register.simple_tag
def your_time(moment: datetime | None, zone: str | None) -> SafeString:
    """Render a time in the staff member's zone, next to the same time in another zone.

    Empty if both zones have the same offset at that time.
    """
    return render_macro(_TIMES, "your_time", moment, zone)


@register.filter
def clock(moment: datetime | None) -> SafeString:
    """Render `08:00` in the staff member's zone, for lists that are grouped by day."""
    return render_macro(_TIMES, "clock_time", moment)


@register.filter
def since(moment: datetime | None, now: datetime | None = None) -> str:
    """Format the time since an instant: `3 d ago`. Code that formats many should pass `now`."""
    return formats.since(moment, now) or DASH


@register.filter
def age(born: date | None, today: date | None = None) -> str:
    """Format an age: `42 y`; in months below two years. Code that formats many passes `today`."""
    return formats.age(born, today) or DASH


is_minor = register.filter(formats.is_minor)
clock_in = register.simple_tag(formats.zone_clock, name="clock_in")


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
    return formats.yes_no(value) or DASH


@register.filter
def money(value: str | float | Decimal | None) -> str:
    """Format a price: `$1,240.00`. Text that is not a number is returned as received."""
    return formats.money(value) or DASH


@register.filter
def cents(value: float | None) -> str:
    """Format a price in cents: `$49.00`."""
    return formats.cents(value) or DASH


@register.filter
def phone(value: str | None) -> SafeString:
    """Render a phone number as a link to call it: `(555) 010-0165`.

    Text that is not a phone number is returned unchanged.
    """
    return render_macro(_VALUES, "phone", value)


register.filter(formats.coded)
register.filter(formats.is_web_address)


@register.filter
def thousands(value: int | None) -> str:
    return formats.thousands(value) or DASH


@register.filter
def initials(value: str | None) -> str:
    """Return initials, for roles that do not see names.

    In a name key, the other spellings follow after two spaces. They are ignored.
    """
    return formats.initials(value) or DASH


@register.simple_tag
def short_id(value: object, copy: bool = True) -> SafeString:
    """Render the first 8 characters of an id. The tooltip and the copy button have all of it."""
    return render_macro(_VALUES, "short_id", value, copy)


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


register.simple_tag(checkboxes, name="ticks")


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
