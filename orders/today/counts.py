"""Exact counts of orders at the cost of reading a few rows, whatever the number of orders.

Triggers note by how much each statement changed a count, in its own transaction (`OrderCount`): a
reader sees what is committed, all of it and nothing else. Writers only add rows, so none waits
for another and a rollback or a kill takes its notes with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from backoffice.core import counters, prepared_queries
from backoffice.models import Drift
from orders.models import Happening, OrderCount

_ROWS: Final = OrderCount._meta.db_table
KEPT: Final = timedelta(days=60)
"""How long happenings are kept: nobody is on leave for longer without starting anew."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of orders by (bucket, low-level status, method)."""

    by_state: dict[tuple[str, str, str], int]

    def of(
        self,
        *,
        bucket: str = "",
        statuses: Collection[str] = (),
        methods: Collection[str] = (),
    ) -> int:
        """Orders in this bucket, with one of these statuses and of one of these methods."""
        return sum(
            number
            for (its_bucket, status, method), number in self.by_state.items()
            if (not bucket or its_bucket == bucket)
            and (not statuses or status in statuses)
            and (not methods or method in methods)
        )

    def by_bucket(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for (bucket, _, _), number in self.by_state.items():
            found[bucket] += number
        return dict(found)


def counts() -> Counts:
    """All counts as of the last commit: one query over a few hundred short rows."""
    with prepared_queries.cursor() as cursor:
        cursor.execute(
            f"SELECT bucket, low_level_status, method, sum(change)::bigint FROM {_ROWS}"
            " GROUP BY 1, 2, 3 HAVING sum(change) <> 0"
        )
        return Counts({(row[0], row[1], row[2]): row[3] for row in cursor.fetchall()})


def fold() -> int:
    """Add up the rows of each state; returns how many rows went."""
    return counters.fold(_ROWS, ("bucket", "low_level_status", "method"), "change")


def mend() -> int:
    """Count all orders anew, put right what differs and leave a note; returns how many differed.

    One statement sees orders and counts as of the same moment. What is committed later changes
    both by the same, so the difference found is right to add whenever it is added.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        if not counters.alone(_ROWS):
            return 0
        cursor.execute(
            f"""
            WITH held AS (
              SELECT bucket, low_level_status, method, sum(change)::bigint AS number
              FROM {_ROWS} GROUP BY 1, 2, 3
            ), truth AS (
              SELECT bucket, low_level_status, method, count(*) AS number
              FROM orders_order GROUP BY 1, 2, 3
            ), wrong AS (
              SELECT bucket, low_level_status, method, coalesce(held.number, 0) AS held,
                coalesce(truth.number, 0) AS truth
              FROM held FULL JOIN truth USING (bucket, low_level_status, method)
              WHERE coalesce(held.number, 0) <> coalesce(truth.number, 0)
            ), mended AS (
              INSERT INTO {_ROWS} (bucket, low_level_status, method, change)
              SELECT bucket, low_level_status, method, truth - held FROM wrong
            )
            SELECT bucket, low_level_status, method, held, truth FROM wrong
            """
        )
        wrong = cursor.fetchall()
        Drift.objects.bulk_create(
            Drift(
                resource=_ROWS,
                key=" · ".join(word for word in (bucket, status, method) if word),
                kind=Drift.Kind.STALE,
                detail=f"Counted {held:,}, there are {truth:,}. Put right.",
            )
            for bucket, status, method, held, truth in wrong
        )
    return len(wrong)


def forget_old() -> None:
    Happening.objects.filter(at__lt=timezone.now() - KEPT).delete()
