"""Entries to seal, and hands that reach past the triggers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

ENTRIES, SEALS = "audit_auditentry", "audit_auditseal"


def sql(statement: str, *values: Any) -> Any:
    """First column of the first row of the answer; None where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def entries(count: int, *, at: str = "now()") -> None:
    """So many entries about made-up records, each of another kind, patient and moment."""
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
def owner() -> Iterator[None]:
    """What is done inside is done by who owns the tables and switched the triggers off."""
    with transaction.atomic():
        sql("SET LOCAL session_replication_role = replica")
        yield
        sql("SET LOCAL session_replication_role = origin")


def forget() -> None:
    """No entry was made so far."""
    with owner():
        sql(f"DELETE FROM {ENTRIES}")


@contextlib.contextmanager
def undone() -> Iterator[None]:
    """What is done inside did not happen."""
    with transaction.atomic():
        place = transaction.savepoint()
        yield
        transaction.savepoint_rollback(place)


def refused(*statements: str) -> None:
    """The last of these statements of one transaction is refused by a trigger."""
    *before, last = statements
    with undone():
        for statement in before:
            sql(statement)
        with pytest.raises(DatabaseError, match="added, never changed"):
            sql(last)


def keeping(years: str) -> str:
    """Statement that says how many years this transaction keeps."""
    return f"SELECT set_config('backoffice.audit_keep_years', '{years}', true)"
