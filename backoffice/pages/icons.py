"""SVG of status glyphs (our own, 12 × 12, each with its own shape) and of icons (heroicons)."""

from functools import lru_cache
from typing import Final

from django.utils.html import format_html
from django.utils.safestring import SafeString
from heroicons.templatetags.heroicons import heroicon_micro, heroicon_outline

_LINE = 'fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round"'
_BANG = (
    '<path d="M6 4v2.6" stroke="var(--st-tint)" stroke-width="1.4" stroke-linecap="round"/>'
    '<circle cx="6" cy="8.6" r=".8" fill="var(--st-tint)"/>'
)

GLYPHS: Final[dict[str, str]] = {
    "ring": f'<circle cx="6" cy="6" r="4.5" {_LINE}/>',
    "dotted-ring": f'<circle cx="6" cy="6" r="4.5" {_LINE} stroke-dasharray="1 2.5"/>',
    "half-ring": f'<circle cx="6" cy="6" r="4.5" {_LINE}/><path d="M6 1.5a4.5 4.5 0 0 1 0 9z" '
    'fill="currentColor"/>',
    "half-ring-clock": f'<circle cx="6" cy="6" r="4.5" {_LINE}/><path d="M6 3.2V6h2.2" {_LINE}/>',
    "chevron": f'<path d="m3 2 3.5 4L3 10m3-8 3.5 4L6 10" {_LINE} stroke-linejoin="round"/>',
    "square": '<rect x="1.5" y="1.5" width="9" height="9" rx="2.5" fill="currentColor"/>',
    "tick": '<circle cx="6" cy="6" r="5.25" fill="currentColor"/>'
    '<path d="m3.6 6.2 1.7 1.7 3.2-3.6" fill="none" stroke="var(--st-tint)" stroke-width="1.4" '
    'stroke-linecap="round" stroke-linejoin="round"/>',
    "warning": '<path d="M6 .9 11.6 11H.4z" fill="currentColor" stroke="currentColor" '
    'stroke-linejoin="round"/>' + _BANG,
    "dash": f'<path d="M2 6h8" {_LINE} stroke-width="2"/>',
    "question": f'<circle cx="6" cy="6" r="5" {_LINE} stroke-width="1" stroke-dasharray="2 1.6"/>'
    '<path d="M4.6 4.6a1.45 1.45 0 1 1 2 1.3q-.6.3-.6 1" fill="none" stroke="currentColor" '
    'stroke-linecap="round"/><circle cx="6" cy="8.7" r=".65" fill="currentColor"/>',
    "octagon": '<path d="M3.7.5h4.6l3.2 3.2v4.6l-3.2 3.2H3.7L.5 8.3V3.7z" fill="currentColor"/>'
    + _BANG,
    "arrows": f'<path d="M3.5 10V2M1.5 4l2-2 2 2M8.5 2v8m-2-2 2 2 2-2" {_LINE} '
    'stroke-linejoin="round"/>',
    "arrow-up": f'<path d="M6 10.5v-9M2.5 5 6 1.5 9.5 5" {_LINE} stroke-linejoin="round"/>',
    "arrow-down": f'<path d="M6 1.5v9M2.5 7 6 10.5 9.5 7" {_LINE} stroke-linejoin="round"/>',
    "repeat": f'<path d="M10 6a4 4 0 1 1-1.2-2.8M9 .9v2.5H6.5" {_LINE} stroke-linejoin="round"/>',
    "dot": '<circle cx="6" cy="6" r="2" fill="currentColor"/>',
}


@lru_cache(maxsize=64)
def glyph_svg(name: str) -> SafeString:
    """Return a status glyph; empty for an empty name. Raises KeyError for an unknown name."""
    if not name:
        return SafeString("")
    return format_html(
        '<svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">{}</svg>',
        SafeString(GLYPHS[name]),
    )


@lru_cache(maxsize=128)
def icon_svg(name: str, large: bool = False) -> SafeString:
    """Return an icon. It is hidden from screen readers, because text next to it has its meaning."""
    draw = heroicon_outline if large else heroicon_micro
    svg = draw(name, **{"class": "icon", "aria-hidden": "true"})  # type: ignore[arg-type]
    return SafeString(svg)


COPY: Final = SafeString(
    '<svg width="16" height="16" class="icon" aria-hidden="true"><use href="#copy-icon"/></svg>'
)
"""The copy icon, used in every row of a list. It refers to one SVG at the end of the page."""


@lru_cache(maxsize=1)
def copy_icon() -> SafeString:
    svg = heroicon_micro("clipboard-document", id="copy-icon")
    return SafeString(f"<div hidden>{svg}</div>")
