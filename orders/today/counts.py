"""Exact counts of orders by reading a few rows, whatever the number of orders.

For each statement, triggers record by how much it changed a count, in the same transaction
(`OrderCount`). So a reader sees exactly what is committed. Writers only add rows, so no writer
waits for another. A rollback or a crash also removes the rows of the counts.
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
from backoffice.mirror.models import Drift
from orders.models import OrderActivity, OrderCount

_TABLE: Final = OrderCount._meta.db_table
RETENTION: Final = timedelta(days=60)
"""How long activity is stored: longer than any leave after which staff want to see what is new."""


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """The numbers of orders by (bucket, low-level status, method)."""

    by_state: dict[tuple[str, str, str], int]

    def count(
        self,
        *,
        bucket: str = "",
        statuses: Collection[str] = (),
        methods: Collection[str] = (),
    ) -> int:
        """Return the number of orders with this bucket, one of these statuses and methods."""
        return sum(
            number
            for (order_bucket, status, method), number in self.by_state.items()
            if (not bucket or order_bucket == bucket)
            and (not statuses or status in statuses)
            and (not methods or method in methods)
        )

    def by_bucket(self) -> dict[str, int]:
        counts: dict[str, int] = defaultdict(int)
        for (bucket, _, _), number in self.by_state.items():
            counts[bucket] += number
        return dict(counts)


def order_counts() -> OrderCounts:
    """Return all counts as of the last commit: one query over a few hundred short rows."""
    with prepared_queries.cursor() as cursor:
        cursor.execute(
            f"SELECT bucket, low_level_status, method, sum(change)::bigint FROM {_TABLE}"
            " GROUP BY 1, 2, 3 HAVING sum(change) <> 0"
        )
        return OrderCounts({(row[0], row[1], row[2]): row[3] for row in cursor.fetchall()})


def compact_counts() -> int:
    """Merge the rows of each state into one; return how many rows were removed."""
    return counters.compact(_TABLE, ("bucket", "low_level_status", "method"), "change")


def repair() -> int:
    """Count all orders again and correct the counts. Record the drift and return how many differed.

    One statement reads orders and counts in the same snapshot. A later commit changes both by the
    same number, so the difference is still correct when it is added.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        if not counters.try_lock(_TABLE):
            return 0
        cursor.execute(
            f"""
            WITH stored AS (
              SELECT bucket, low_level_status, method, sum(change)::bigint AS number
              FROM {_TABLE} GROUP BY 1, 2, 3
            ), truth AS (
              SELECT bucket, low_level_status, method, count(*) AS number
              FROM orders_order GROUP BY 1, 2, 3
            ), wrong AS (
              SELECT bucket, low_level_status, method, coalesce(stored.number, 0) AS stored,
                coalesce(truth.number, 0) AS truth
              FROM stored FULL JOIN truth USING (bucket, low_level_status, method)
              WHERE coalesce(stored.number, 0) <> coalesce(truth.number, 0)
            ), repaired AS (
              INSERT INTO {_TABLE} (bucket, low_level_status, method, change)
              SELECT bucket, low_level_status, method, truth - stored FROM wrong
            )
            SELECT bucket, low_level_status, method, stored, truth FROM wrong
            """
        )
        wrong = cursor.fetchall()
        Drift.objects.bulk_create(
            Drift(
                resource=_TABLE,
                key=" · ".join(word for word in (bucket, status, method) if word),
                kind=Drift.Kind.STALE,
                detail=f"Counted {stored:,}, there are {truth:,}. Corrected.",
            )
            for bucket, status, method, stored, truth in wrong
        )
    return len(wrong)


def delete_old_activity() -> None:
    OrderActivity.objects.filter(at__lt=timezone.now() - RETENTION).delete()
