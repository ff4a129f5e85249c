"""Badges of results in review: their words, color family and glyph."""

from __future__ import annotations

from typing import Final, NamedTuple

from orders.models import Review
from orders.models.review import SOMEBODY_ELSE


class ReviewTerm(NamedTuple):
    label: str
    family: str
    glyph: str


PLACE_TERMS: Final = {
    "critical": ReviewTerm("Critical", "critical", "octagon"),
    "abnormal": ReviewTerm("Abnormal", "abnormal", "arrows"),
    "corrected": ReviewTerm("Corrected", "result-in", "repeat"),
    "unknown": ReviewTerm("Not interpreted", "unknown", "question"),
    SOMEBODY_ELSE: ReviewTerm("Names somebody else", "needs-action", "warning"),
    "normal": ReviewTerm("Normal", "plain", ""),
    "partial": ReviewTerm("Partial", "at-lab", "square"),
    "seen": ReviewTerm("Partial, seen", "closed", "dash"),
}
ACKNOWLEDGED_TERM: Final = ReviewTerm("Critical, acknowledged", "critical", "half-ring")
CALLED_TERM: Final = ReviewTerm("Critical, told", "closed", "tick")
"""Of acknowledged critical results, before and after the call."""
KIND_TERMS: Final = {
    "partial": ReviewTerm("Partial", "at-lab", "square"),
    "final": ReviewTerm("Final", "result-in", "tick"),
    "corrected": ReviewTerm("Corrected", "result-in", "repeat"),
    "unknown": ReviewTerm("Status not known", "unknown", "question"),
    "": ReviewTerm("Announced, not read yet", "preparing", "ring"),
}


def place_term(review: Review) -> ReviewTerm:
    """Return the reason for a result's place in the queue."""
    if review.is_critical and review.is_acknowledged:
        return CALLED_TERM if review.is_called else ACKNOWLEDGED_TERM
    return PLACE_TERMS[review.place]


def identity_term(review: Review) -> ReviewTerm | None:
    """Return the term of a result that names somebody else, unless `place_term` is that."""
    if not review.names_somebody_else or review.place == SOMEBODY_ELSE:
        return None
    return PLACE_TERMS[SOMEBODY_ELSE]


def kind_term(review: Review) -> ReviewTerm:
    """Return the term of the kind: partial, final, corrected, unknown or announced."""
    return KIND_TERMS.get(review.kind, ReviewTerm(review.kind, "unknown", "question"))
