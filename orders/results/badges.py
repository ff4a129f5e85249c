"""Badges of results, and the ring of how many tests of an order are back."""

from __future__ import annotations

from typing import Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

from backoffice.pages.icons import glyph_svg
from orders.models import Review
from orders.models.review import SOMEBODY_ELSE
from orders.results.completeness import Completeness

PLACE_BADGES: Final = {
    "critical": ("Critical", "critical", "octagon"),
    "abnormal": ("Abnormal", "abnormal", "arrows"),
    "corrected": ("Corrected", "result-in", "repeat"),
    "unknown": ("Not interpreted", "unknown", "question"),
    SOMEBODY_ELSE: ("Names somebody else", "needs-action", "warning"),
    "normal": ("Normal", "plain", ""),
    "partial": ("Partial", "at-lab", "square"),
    "seen": ("Partial, seen", "closed", "dash"),
}
ACKNOWLEDGED_BADGE: Final = ("Critical, acknowledged", "critical", "half-ring")
CALLED_BADGE: Final = ("Critical, told", "closed", "tick")
"""Badges of acknowledged critical results, before and after the call."""


def place_badge(review: Review) -> SafeString:
    """Render the badge with the reason for a result's place in the queue."""
    if review.is_critical and review.is_acknowledged:
        return _badge(*(CALLED_BADGE if review.is_called else ACKNOWLEDGED_BADGE))
    return _badge(*PLACE_BADGES[review.place])


def identity_badge(review: Review) -> SafeString:
    """Render the badge of a result that names somebody else, next to `place_badge`.

    Other results have no such badge.
    """
    if not review.names_somebody_else or review.place == SOMEBODY_ELSE:
        return SafeString("")  # `place_badge` already shows it.
    return _badge(*PLACE_BADGES[SOMEBODY_ELSE])


def kind_badge(review: Review) -> SafeString:
    """Render the badge of the kind: partial, final, corrected, unknown or announced."""
    words, family, glyph = {
        "partial": ("Partial", "at-lab", "square"),
        "final": ("Final", "result-in", "tick"),
        "corrected": ("Corrected", "result-in", "repeat"),
        "unknown": ("Status not known", "unknown", "question"),
        "": ("Announced, not read yet", "preparing", "ring"),
    }.get(review.kind, (review.kind, "unknown", "question"))
    return _badge(words, family, glyph)


def completeness_ring(completeness: Completeness | None, words: bool = True) -> SafeString | str:
    """Render which part of a result is back, without queries: see `completeness_by_order`."""
    if completeness is None or not completeness.total:
        return ""
    state = "whole" if completeness.is_whole else "lost" if completeness.failed_count else "open"
    svg = format_html(
        '<svg class="ring {}" viewBox="0 0 16 16" aria-hidden="true">'
        '<circle class="track" cx="8" cy="8" r="6"/>'
        '<circle class="part" cx="8" cy="8" r="6" pathLength="{}" stroke-dasharray="{} {}" '
        'transform="rotate(-90 8 8)"/></svg>',
        state,
        completeness.total,
        completeness.back,
        completeness.total,
    )
    label = str(completeness)
    if words:
        return format_html('<span class="rings">{}{}</span>', svg, label)
    return format_html(
        '<span class="rings" title="{}">{}{} of {}<span class="sr"> back</span></span>',
        label,
        svg,
        completeness.back,
        completeness.total,
    )


def _badge(words: str, family: str, glyph: str) -> SafeString:
    return format_html('<span class="st" data-st="{}">{}{}</span>', family, glyph_svg(glyph), words)
