"""Counters stored as rows of increments: writers add rows, readers sum them.

No writer waits for another. A rollback or a kill removes its own increments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import connection, transaction

MIN_REDUNDANT_ROWS: Final = 200
"""Number of redundant rows from which compacting pays."""


def compact(
    table: str, by: Sequence[str], change: str, min_redundant: int = MIN_REDUNDANT_ROWS
) -> int:
    """Merge the increments of each counter into one row and return how many rows were deleted.

    Writers may run at the same time.
    """
    columns = ", ".join(by)
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(table):
            return 0
        cursor.execute(f"SELECT count(*), count(DISTINCT ({columns})) FROM {table}")
        row_count, counter_count = cursor.fetchone()
        if row_count - counter_count < min_redundant:
            return 0
        cursor.execute(
            f"WITH deleted AS (DELETE FROM {table} RETURNING {columns}, {change}),"
            f" merged AS (INSERT INTO {table} ({columns}, {change})"
            f"  SELECT {columns}, sum({change}) FROM deleted GROUP BY {columns}"
            f"  HAVING sum({change}) <> 0)"
            " SELECT count(*) FROM deleted"
        )
        return int(cursor.fetchone()[0])


def try_lock(table: str) -> bool:
    """Take the lock for compacting or repairing this table until the transaction ends.

    Returns False when another process holds it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [table])
        return bool(cursor.fetchone()[0])
