"""Critical results that still want somebody, for the bar that stands above every page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

from backoffice.access import may
from orders.reviewing import open_criticals
from orders.reviewing.models import Review

MOST: Final = 50
"""Beyond it the bar says `50+`: nobody counts on."""


@dataclass(frozen=True, slots=True)
class Criticals:
    """Those that nobody acknowledged, or about which nobody was reached; oldest first."""

    rows: list[Review]

    @property
    def unacknowledged(self) -> int:
        return sum(not row.is_acknowledged for row in self.rows)


def of(request: HttpRequest) -> Criticals:
    """One short query for each page, on the index `review_open_critical`; remembered."""
    known: Criticals | None = getattr(request, "_criticals", None)
    if known is None:
        seen = may(request.user, "orders.view")
        known = Criticals(list(open_criticals()[:MOST]) if seen else [])
        request._criticals = known  # type: ignore[attr-defined]
    return known
