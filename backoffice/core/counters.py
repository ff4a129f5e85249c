"""Counts as rows of changes: writers only add rows, readers sum them.

No writer waits for another, and a rollback or a kill takes its changes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import connection, transaction

MIN_REDUNDANT_ROWS: Final = 200
"""Rows beyond the number of counts, from which adding up pays."""


def compact(table: str, by: Sequence[str], change: str, worth: int = MIN_REDUNDANT_ROWS) -> int:
    """Make one row of the changes of each count; returns how many rows went. Safe beside any
    writer."""
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
    """Whether nobody else adds up or mends these counts until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [table])
        return bool(cursor.fetchone()[0])
