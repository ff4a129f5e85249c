"""Copies of all rows of a database in memory, so that each test starts from the same rows."""

from __future__ import annotations

import psycopg

from tests.table_clearing import delete_statements

TableRows = dict[str, bytes]

MIGRATION_PREFIXES = ("django_", "auth_")


def copy_rows(database_url: str) -> TableRows:
    """Return the rows of every table, including empty tables."""
    with psycopg.connect(database_url) as connection:
        return {table: _copy_table(connection, table) for table in _table_names(connection)}


def restore_rows(database_url: str, rows_by_table: TableRows) -> None:
    """Replace all rows by these. Sequences are not reset, so new rows get new numbers."""
    quoted_names = [f'"{table}"' for table in rows_by_table]
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        for statement in delete_statements(quoted_names):
            cursor.execute(statement.encode())
        for table, rows in rows_by_table.items():
            if rows:
                with cursor.copy(f'COPY "{table}" FROM STDIN'.encode()) as copy:
                    copy.write(rows)


def _table_names(connection: psycopg.Connection) -> list[str]:
    names = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    return [name for (name,) in names if not name.startswith(MIGRATION_PREFIXES)]


def _copy_table(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f'COPY "{table}" TO STDOUT'.encode()) as copy:
        return b"".join(copy)
