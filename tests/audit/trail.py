"""Helpers for the audit log: entries to seal, and access that bypasses the triggers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

ENTRIES, SEALS = "audit_auditentry", "audit_auditseal"


def sql(statement: str, *values: Any) -> Any:
    """Return the first column of the first row, or None without rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def create_entries(count: int, *, at: str = "now()") -> None:
    """Create entries about made-up records, each of another kind, patient and moment."""
    sql(
        f"INSERT INTO {ENTRIES} (at, actor_kind, action, object_type, object_ids, patient_ids,"
        " route, request_id, ip, outcome, reason, before, after)"
        f" SELECT {at} + n * interval '1 ms', 'staff', 'view', 'order',"
        " ARRAY[n::text, 'a,\"b}'], ARRAY[md5(n::text)::uuid], 'orders:detail', md5(n::text),"
        " '192.0.2.7', 'ok', CASE WHEN n %% 3 = 0 THEN 'why, \"indeed\"' ELSE '' END,"
        " CASE WHEN n %% 5 = 0 THEN jsonb_build_object('roles', n) END, NULL"
        " FROM generate_series(1, %s) AS n",
        count,
    )


@contextlib.contextmanager
def as_table_owner() -> Iterator[None]:
    """Act inside as the owner of the tables with the triggers disabled."""
    with transaction.atomic():
        sql("SET LOCAL session_replication_role = replica")
        yield
        sql("SET LOCAL session_replication_role = origin")


def delete_all_entries() -> None:
    """Delete all entries."""
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES}")


@contextlib.contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back what is done inside."""
    with transaction.atomic():
        place = transaction.savepoint()
        yield
        transaction.savepoint_rollback(place)


def assert_refused(*statements: str) -> None:
    """Assert that a trigger refuses the last of these statements of one transaction."""
    *before, last = statements
    with rolled_back():
        for statement in before:
            sql(statement)
        with pytest.raises(DatabaseError, match="added, never changed"):
            sql(last)


def set_keep_years(years: str) -> str:
    """Return the statement that sets how many years this transaction keeps."""
    return f"SELECT set_config('backoffice.audit_keep_years', '{years}', true)"
