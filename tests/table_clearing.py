"""Clear the tables after a test that commits: delete rows, keep files.

Django truncates every table. PostgreSQL then creates new files for each table, its indexes and its
TOAST table. That takes half a second for the eighty tables here, of which a test filled only a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.db.backends.postgresql.operations import DatabaseOperations

KEPT_TABLE: Final = "core_installation"
"""This table is created with its row. What processes remember of it must not change."""

LOCK_SECONDS: Final = 60
"""Longest wait for transactions that still write."""


def flush_statements(
    self: DatabaseOperations, style: Any, tables: Sequence[str], **_: Any
) -> list[str]:
    """Replace `DatabaseOperations.sql_flush`."""
    names = [self.quote_name(table) for table in tables if table != KEPT_TABLE]
    reset = f"UPDATE {KEPT_TABLE} SET audit_first_entry = NULL, team_id = NULL"
    return [*delete_statements(names), reset] if names else []


def delete_statements(names: Sequence[str]) -> list[str]:
    """Return statements for one transaction that delete all rows of these tables, by quoted
    names."""
    return [
        lock_statement(names),
        # Disable triggers: some refuse deletes, and none needs to see these deletes or rows that
        # are restored in the same transaction.
        "SET LOCAL session_replication_role = replica",
        "; ".join(f"DELETE FROM {name}" for name in names),
    ]


def lock_statement(names: Sequence[str]) -> str:
    """Return a statement that waits until no other transaction writes to these tables.

    As with TRUNCATE, rows of statements that still ran are then deleted, too. It never waits while
    it holds some of the locks: a process that writes to the tables in another order, such as the
    sandbox, would be the victim of a deadlock or its cause.
    """
    return f"""
        DO $$
        DECLARE
            last_try timestamptz := clock_timestamp() + interval '{LOCK_SECONDS} seconds';
        BEGIN
            LOOP
                BEGIN
                    LOCK TABLE {", ".join(names)} IN EXCLUSIVE MODE NOWAIT;
                    EXIT;
                EXCEPTION WHEN lock_not_available THEN
                    IF clock_timestamp() > last_try THEN RAISE; END IF;
                END;
                PERFORM pg_sleep(0.01);
            END LOOP;
        END $$"""
