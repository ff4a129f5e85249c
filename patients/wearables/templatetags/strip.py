"""Tags of the draw-day strip."""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()


@register.filter
def hours_minutes(seconds: int) -> str:
    """Return a duration such as `6 h 12 min`."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min"


@register.simple_tag
def coverage(hours: Sequence[bool]) -> SafeString:
    """Return a bar of the hours of a day. Hours with a value are filled, others are hatched."""
    cells = format_html_join(
        "",
        '<rect class="{}" x="{}" y="0" width="3" height="8"/>',
        (("there" if there else "gap", 4 * n) for n, there in enumerate(hours)),
    )
    return format_html(
        '<svg class="coverage" viewBox="0 0 {} 8" aria-hidden="true">{}</svg>',
        4 * len(hours),
        cells,
    )
