"""Results on pages: badges, completeness rings, sparklines, arrows, the chart of one marker.

{% load results %}
{% completeness_ring completeness %} a small ring and `7 of 9 back`; takes a `Completeness`
{% sparkline row.values %}              up to six points; a gap where the unit differs
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from backoffice.core.time_formats import calendar_day, spoken
from backoffice.pages.icons import glyph_svg
from backoffice.pages.templatetags.chart import number_text, scale
from backoffice.pages.templatetags.ui import DASH
from orders.progress import format_duration
from orders.results import badges, result_badges
from orders.results.forms import CALL_OUTCOME_LABELS, TELLER_LABELS
from orders.results.history import MarkerValue

register = template.Library()

register.simple_tag(badges.place_badge)
register.simple_tag(badges.identity_badge)
register.simple_tag(badges.kind_badge)
register.simple_tag(badges.completeness_ring)

SPARKLINE_WIDTH, SPARKLINE_HEIGHT = 64, 16
"""Size of a sparkline in SVG units."""


@register.simple_tag
def sparkline(values: Sequence[MarkerValue]) -> SafeString | str:
    """Render earlier values and this one as a small line.

    It is hidden from screen readers. They get the previous value as text, and the page of the
    marker.
    """
    numbers = [value for value in values if value.number is not None]
    if len(numbers) < 2:
        return ""
    now = values[-1]
    same = [value for value in numbers if value.has_unit(now.unit)]
    if now.number is None or len(same) < 2:
        return ""
    ends = [value.number for value in same if value.number is not None]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    step = (SPARKLINE_WIDTH - 8) / max(len(values) - 1, 1)

    def place(position: int, value: MarkerValue) -> str:
        assert value.number is not None
        height = (value.number - low) / span * (SPARKLINE_HEIGHT - 6)
        return f"{4 + position * step:.1f} {SPARKLINE_HEIGHT - 3 - height:.1f}"

    lines = "".join(
        f"M{place(n, one)}L{place(n + 1, other)}"
        for n, (one, other) in enumerate(pairwise(values))
        if one.is_comparable(other) and one.has_unit(now.unit)
    )
    dots = "".join(
        f"M{place(n, value)}h0"
        for n, value in enumerate(values)
        if value.number is not None and value.has_unit(now.unit)
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><path d="{}"/>'
        '<path class="dots" d="{}"/><path class="last" d="M{}h0"/></svg>',
        SPARKLINE_WIDTH,
        SPARKLINE_HEIGHT,
        lines,
        dots,
        place(len(values) - 1, now),
    )


ARROWS: Final = {
    "up": ("arrow-up", "higher"),
    "down": ("arrow-down", "lower"),
    "same": ("", "same"),
}


@register.simple_tag
def change_arrow(direction: str) -> SafeString | str:
    """Render an arrow, and a word for screen readers."""
    if direction not in ARROWS:
        return ""
    glyph, words = ARROWS[direction]
    if not glyph:
        return format_html('<span class="muted">=<span class="sr"> {}</span></span>', words)
    return format_html("{}<span class='sr'> {}</span>", glyph_svg(glyph), words)


@register.simple_tag(takes_context=True)
def unsigned_results(context: Context) -> int:
    """Return how many results wait for review; 0 for users who may not see results."""
    return result_badges(context["request"].user).unsigned


@register.filter
def outcome(value: str) -> str:
    """Return the label of a call's outcome."""
    return CALL_OUTCOME_LABELS.get(value, value)


@register.filter
def teller_label(value: str) -> str:
    """Return the label of the person who informs the patient."""
    return TELLER_LABELS.get(value, value)


@register.filter
def duration(length: timedelta | None) -> SafeString | str:
    """Return a duration such as "3 d" or "5 h"; a dash for None."""
    return DASH if length is None else format_duration(length)


@register.filter
def ago_exactly(moment: datetime, now: datetime) -> str:
    """Return "3 s ago" within a minute, else the time with its zone."""
    seconds = int((now - moment).total_seconds())
    if 0 <= seconds < 60:
        return f"{seconds} s ago"
    local = timezone.localtime(moment)
    return f"at {spoken(local, timezone.localtime(now))}"


# The chart of one marker


@register.simple_tag
def trend_plot(values: Sequence[MarkerValue]) -> SafeString | str:
    """Render the values in the newest unit over time.

    Ranges differ between labs, so each point has its own band of the reference range. Its mark has
    the shape of its flag. No line crosses a value of another unit.
    """
    numbers = [v for v in values if v.number is not None]
    if not numbers:
        return ""
    unit = numbers[-1].unit
    plotted = [v for v in numbers if v.has_unit(unit)]
    ends = [n for v in plotted for n in (v.number, v.low, v.high) if n is not None]
    bottom, top, step = scale(ends, from_zero=False)
    first = plotted[0].sort_time
    length = (plotted[-1].sort_time - first).total_seconds()

    def x(value: MarkerValue) -> float:
        return 5 + 90 * (value.sort_time - first).total_seconds() / length if length else 50

    def y(number: float) -> float:
        return 100 * (top - min(max(number, bottom), top)) / (top - bottom)

    places = [x(v) for v in plotted]
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(places)), 100.0]
    bands = format_html_join(
        "",
        '<rect class="band" x="{}%" y="{}%" width="{}%" height="{}%"/>',
        (
            (f"{left:.2f}", f"{y(up):.2f}", f"{right - left:.2f}", f"{y(down) - y(up):.2f}")
            for v, (left, right) in zip(plotted, pairwise(edges), strict=True)
            if v.low is not None or v.high is not None
            for up in [top if v.high is None else v.high]
            for down in [bottom if v.low is None else v.low]
        ),
    )
    lines = format_html_join(
        "",
        '<line class="line" x1="{}%" y1="{}%" x2="{}%" y2="{}%"/>',
        (
            (f"{x(a):.2f}", f"{y(a.number):.2f}", f"{x(b):.2f}", f"{y(b.number):.2f}")
            for a, b in pairwise(numbers)
            if a.is_comparable(b)
            and a.has_unit(unit)
            and a.number is not None
            and b.number is not None
        ),
    )
    marks = format_html_join(
        "",
        '<svg x="{}%" y="{}%" overflow="visible"><path class="mark {}" d="{}"/></svg>',
        ((f"{x(v):.2f}", f"{y(v.number or 0.0):.2f}", v.flag, _mark_path(v)) for v in plotted),
    )
    levels = [bottom + step * n for n in range(round((top - bottom) / step) + 1)]
    grid = format_html_join(
        "",
        '<line class="grid" x1="0" x2="100%" y1="{0}%" y2="{0}%"/>'
        '<text x="-8" y="{0}%" dy=".32em" text-anchor="end">{1}</text>',
        ((f"{y(level):.2f}", number_text(level)) for level in levels),
    )
    days = dict.fromkeys((plotted[0], plotted[-1]))
    dates = format_html_join(
        "",
        '<text x="{}%" y="100%" dy="1.5em" text-anchor="middle">{}</text>',
        ((f"{x(v):.2f}", calendar_day(v.sort_time)) for v in days),
    )
    return format_html(
        '<svg class="trend" aria-hidden="true">{}{}{}{}{}</svg>', bands, grid, lines, marks, dates
    )


def _mark_path(value: MarkerValue) -> str:
    """Return the SVG path of a mark.

    It is an octagon for critical, a triangle that points to the side for abnormal, a square for not
    interpreted, and else a disc.
    """
    if value.flag == "critical":
        return "M-2.5-6h5L6-2.5v5L2.5 6h-5L-6 2.5v-5z"
    if value.flag == "unknown":
        return "M-4-4h8v8h-8z"
    if value.flag == "abnormal":
        return "M-6-4H6L0 6z" if value.side == "low" else "M-6 4H6L0-6z"
    return "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"
