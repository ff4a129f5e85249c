"""Whether the database can serve pages, for `/health/ready`."""

from __future__ import annotations

from threading import Event
from typing import Final

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

MIGRATED: Final = Event()
"""Set when this process has found all migrations applied. They are not checked again, because
nobody unapplies migrations while a process runs."""


def database_state() -> str:
    """Return `ok`, `migrations missing` or `unreachable`."""
    try:
        if not MIGRATED.is_set():
            executor = MigrationExecutor(connection)
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                return "migrations missing"
            MIGRATED.set()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "unreachable"
    return "ok"
