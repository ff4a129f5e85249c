"""Badges of results in review: their words, color family and glyph."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.utils.translation import gettext_noop

from orders.models import Review
from orders.models.review import SOMEBODY_ELSE


class ReviewTerm(NamedTuple):
    label: str
    family: str
    glyph: str


PLACE_TERMS: Final = {
    "critical": ReviewTerm(gettext_noop("Critical"), "critical", "octagon"),
    "abnormal": ReviewTerm(gettext_noop("Abnormal"), "abnormal", "arrows"),
    "corrected": ReviewTerm(gettext_noop("Corrected"), "result-in", "repeat"),
    "unknown": ReviewTerm(gettext_noop("Not interpreted"), "unknown", "question"),
    SOMEBODY_ELSE: ReviewTerm(gettext_noop("Names somebody else"), "needs-action", "warning"),
    "normal": ReviewTerm(gettext_noop("Normal"), "plain", ""),
    "partial": ReviewTerm(gettext_noop("Partial"), "at-lab", "square"),
    "seen": ReviewTerm(gettext_noop("Partial, acknowledged"), "closed", "dash"),
}
ACKNOWLEDGED_TERM: Final = ReviewTerm(
    gettext_noop("Critical, acknowledged"), "critical", "half-ring"
)
CALLED_TERM: Final = ReviewTerm(gettext_noop("Critical, notified"), "closed", "tick")
"""Of acknowledged critical results, before and after the call."""
KIND_TERMS: Final = {
    "partial": ReviewTerm(gettext_noop("Partial"), "at-lab", "square"),
    "final": ReviewTerm(gettext_noop("Final"), "result-in", "tick"),
    "corrected": ReviewTerm(gettext_noop("Corrected"), "result-in", "repeat"),
    "unknown": ReviewTerm(gettext_noop("Status unknown"), "unknown", "question"),
    "": ReviewTerm(gettext_noop("Announced, values pending"), "preparing", "ring"),
}


def place_term(review: Review) -> ReviewTerm:
    """Return the reason for a result's place in the queue."""
    if review.is_critical and review.is_acknowledged:
        return CALLED_TERM if review.is_called else ACKNOWLEDGED_TERM
    return PLACE_TERMS[review.place]


def identity_term(review: Review) -> ReviewTerm | None:
    """Return the term of a result that names someone else, unless `place_term` is that."""
    if not review.names_somebody_else or review.place == SOMEBODY_ELSE:
        return None
    return PLACE_TERMS[SOMEBODY_ELSE]


def kind_term(review: Review) -> ReviewTerm:
    """Return the term of the kind: partial, final, corrected, unknown or announced."""
    return KIND_TERMS.get(review.kind, ReviewTerm(review.kind, "unknown", "question"))
