"""Counters stored as rows of increments: writers add rows, readers sum them.

No writer waits for another. A rollback or a kill removes its own increments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import connection, transaction

MIN_REDUNDANT_ROWS: Final = 200
"""Number of redundant rows from which compacting pays."""


def compact(table: str, by: Sequence[str], change: str, worth: int = MIN_REDUNDANT_ROWS) -> int:
    """Merge the increments of each counter into one row and return how many rows were deleted.

    Writers may run at the same time.
    """
    counts = ", ".join(by)
    with transaction.atomic(), connection.cursor() as cursor:
        if not try_lock(table):
            return 0
        cursor.execute(f"SELECT count(*), count(DISTINCT ({counts})) FROM {table}")
        rows, states = cursor.fetchone()
        if rows - states < worth:
            return 0
        cursor.execute(
            f"WITH gone AS (DELETE FROM {table} RETURNING {counts}, {change}),"
            f" kept AS (INSERT INTO {table} ({counts}, {change})"
            f"  SELECT {counts}, sum({change}) FROM gone GROUP BY {counts}"
            f"  HAVING sum({change}) <> 0)"
            " SELECT count(*) FROM gone"
        )
        return int(cursor.fetchone()[0])


def try_lock(table: str) -> bool:
    """Take the lock for compacting or repairing this table until the transaction ends.

    Returns False when another process holds it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [table])
        return bool(cursor.fetchone()[0])
