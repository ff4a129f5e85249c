"""How much of a result is back: `7 of 9 back · 1 pending · 1 failed: not enough blood`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from backoffice.core import prepared_queries, vocabulary

NOTHING_WRONG: Final = ("non_failure", "")
"""What the lab says of a marker that is only late."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """Markers of one result: back, still to come, and failed by cause."""

    back: int = 0
    pending: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    is_partial: bool = False

    @property
    def lost(self) -> int:
        return sum(self.failed.values())

    @property
    def total(self) -> int:
        return self.back + self.pending + self.lost

    @property
    def is_whole(self) -> bool:
        return self.back == self.total

    @property
    def causes(self) -> list[tuple[int, str]]:
        """How many failed of each cause, in words."""
        return [
            (count, _low(vocabulary.term("missing.failure_type", cause).label))
            for cause, count in sorted(self.failed.items(), key=lambda item: -item[1])
        ]

    @property
    def rest(self) -> str:
        """What becomes of those that are not back: a partial result goes on, a final one does
        not."""
        return "pending" if self.is_partial else "not reported"

    def __str__(self) -> str:
        said = [f"{self.back} of {self.total} back"]
        if self.pending:
            said.append(f"{self.pending} {self.rest}")
        said += [f"{count} failed: {cause}" for count, cause in self.causes]
        return " · ".join(said)


def _low(words: str) -> str:
    return words[:1].lower() + words[1:]


# The markers a lab test is expected to bring, without reflex ones: they run only when needed.
_BACK: Final = """
SELECT r.order_id, r.status, r.returned, r.missing, (
 SELECT count(*) FROM labs_labtestmarker t
 JOIN labs_expectedresult e ON e.marker_id = t.marker_id
 WHERE t.lab_test_id = o.lab_test_id AND e.required IS NOT FALSE
) AS expected
FROM orders_result r LEFT JOIN orders_order o ON o.id = r.order_id
WHERE r.order_id = ANY(%s)
"""
_MISSING: Final = """
SELECT result_id, failure_type, count(*) FROM orders_resultmarker
WHERE is_missing AND result_id = ANY(%s) GROUP BY 1, 2
"""


def completeness_of(orders: Iterable[UUID]) -> dict[UUID, Completeness]:
    """By order, for those that have a result: two queries, however many are asked about."""
    keys = list(orders)
    if not keys:
        return {}
    with prepared_queries.cursor() as cursor:
        cursor.execute(_BACK, [keys])
        heads = cursor.fetchall()
        cursor.execute(_MISSING, [keys])
        causes: dict[UUID, dict[str, int]] = defaultdict(dict)
        for order_id, cause, count in cursor.fetchall():
            causes[order_id][cause or ""] = count
    return {
        order_id: _of(status, back, missing, expected, causes[order_id])
        for order_id, status, back, missing, expected in heads
    }


def _of(
    status: str, back: int, missing: int, expected: int, causes: dict[str, int]
) -> Completeness:
    is_partial = status == "partial"
    failed = {c: n for c, n in causes.items() if not (is_partial and c in NOTHING_WRONG)}
    late = missing - sum(failed.values())
    unmentioned = max(0, expected - back - missing)
    return Completeness(back, late + unmentioned, failed, is_partial)
