"""Emptying the tables after a test that commits: rows go, files stay.

Django truncates every table. PostgreSQL then makes new files for each, its indexes and its toast:
half a second for the eighty tables here, of which a test has filled a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.db.backends.postgresql.operations import DatabaseOperations

KEPT: Final = "core_installation"
"""Made with the tables; what processes remember of it must not change under them."""


def statements(self: DatabaseOperations, style: Any, tables: Sequence[str], **_: Any) -> list[str]:
    """In the place of `DatabaseOperations.sql_flush`."""
    names = [self.quote_name(table) for table in tables if table != KEPT]
    begun = f"UPDATE {KEPT} SET audit_first_entry = NULL, team_id = NULL"
    return [*emptied(names), begun] if names else []


def emptied(names: Sequence[str]) -> list[str]:
    """Statements of one transaction that delete all rows of these tables, by their quoted names."""
    return [
        # As TRUNCATE does: what somebody still writes is waited for, and goes with the rest.
        f"LOCK TABLE {', '.join(names)} IN EXCLUSIVE MODE",
        # No triggers: some refuse to have rows deleted, and none needs to hear of this, nor of
        # what is put back in the same transaction.
        "SET LOCAL session_replication_role = replica",
        "; ".join(f"DELETE FROM {name}" for name in names),
    ]
