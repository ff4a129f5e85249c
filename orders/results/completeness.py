"""Completeness of a result: "7 of 9 back · 1 pending · 1 failed: not enough blood"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core import prepared_queries, vocabulary

LATE_TYPES: Final = ("non_failure", "")
"""Failure types of a marker that is only late."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """Numbers of markers of one result: returned, pending, and failed by cause."""

    back: int = 0
    pending: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    is_partial: bool = False

    @property
    def failed_count(self) -> int:
        return sum(self.failed.values())

    @property
    def total(self) -> int:
        return self.back + self.pending + self.failed_count

    @property
    def is_whole(self) -> bool:
        return self.back == self.total

    @property
    def causes(self) -> list[tuple[int, str]]:
        """The number of failed markers for each cause, with the label of the cause."""
        return [
            (count, _lower_first(gettext(vocabulary.term("missing.failure_type", cause).label)))
            for cause, count in sorted(self.failed.items(), key=lambda item: -item[1])
        ]

    def __str__(self) -> str:
        back = gettext("%(back)s of %(total)s back")
        parts = [back % {"back": self.back, "total": self.total}]
        if self.pending:
            # Markers can be pending only in a partial result.
            pending = (
                gettext("%(count)s pending")
                if self.is_partial
                else gettext("%(count)s not reported")
            )
            parts.append(pending % {"count": self.pending})
        failed = gettext("%(count)s failed: %(cause)s")
        parts += [failed % {"count": count, "cause": cause} for count, cause in self.causes]
        return " · ".join(parts)


def _lower_first(words: str) -> str:
    return words[:1].lower() + words[1:]


# `expected`: the markers of the lab test without reflex markers. Reflex markers run only if needed.
_COUNTS_SQL: Final = """
SELECT r.order_id, r.status, r.returned, r.missing, (
 SELECT count(*) FROM labs_labtestmarker t
 JOIN labs_expectedresult e ON e.marker_id = t.marker_id
 WHERE t.lab_test_id = o.lab_test_id AND e.required IS NOT FALSE
) AS expected
FROM orders_result r LEFT JOIN orders_order o ON o.id = r.order_id
WHERE r.order_id = ANY(%s)
"""
_CAUSES_SQL: Final = """
SELECT result_id, failure_type, count(*) FROM orders_resultmarker
WHERE is_missing AND result_id = ANY(%s) GROUP BY 1, 2
"""


def completeness_by_order(orders: Iterable[UUID]) -> dict[UUID, Completeness]:
    """Return the completeness of each order that has a result: two queries."""
    keys = list(orders)
    if not keys:
        return {}
    with prepared_queries.cursor() as cursor:
        cursor.execute(_COUNTS_SQL, [keys])
        heads = cursor.fetchall()
        cursor.execute(_CAUSES_SQL, [keys])
        causes: dict[UUID, dict[str, int]] = defaultdict(dict)
        for order_id, cause, count in cursor.fetchall():
            causes[order_id][cause or ""] = count
    return {
        order_id: _completeness(status, back, missing, expected, causes[order_id])
        for order_id, status, back, missing, expected in heads
    }


def _completeness(
    status: str, back: int, missing: int, expected: int, causes: dict[str, int]
) -> Completeness:
    is_partial = status == "partial"
    failed = {c: n for c, n in causes.items() if not (is_partial and c in LATE_TYPES)}
    late = missing - sum(failed.values())
    unmentioned = max(0, expected - back - missing)
    return Completeness(back, late + unmentioned, failed, is_partial)
