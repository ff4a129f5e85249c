"""Critical results that still want somebody, for the bar that stands above every page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

from backoffice.access import may
from orders.reviewing import at_a_glance
from orders.reviewing.models import Review

MOST: Final = 50
"""Beyond it the bar says `50+`: nobody counts on."""


@dataclass(frozen=True, slots=True)
class Criticals:
    """Those that nobody acknowledged, or about which nobody was reached; oldest first."""

    rows: list[Review]
    unsigned: int = 0
    """How many results wait for review."""

    @property
    def unacknowledged(self) -> int:
        return sum(not row.is_acknowledged for row in self.rows)


def of(request: HttpRequest) -> Criticals:
    """One short query for each page, on the index `review_open_critical`; remembered."""
    known: Criticals | None = getattr(request, "_criticals", None)
    if known is None:
        known = Criticals([])
        if may(request.user, "orders.view"):
            known = Criticals(*at_a_glance(MOST))
        request._criticals = known  # type: ignore[attr-defined]
    return known
