"""The rows of a database, kept in memory: each test starts from where the first did."""

from __future__ import annotations

import psycopg

from tests.emptying import emptied

Kept = dict[str, bytes]

MADE_BY_MIGRATIONS = ("django_", "auth_")


def keep(database_url: str) -> Kept:
    """The rows of every table, also of those that have none."""
    with psycopg.connect(database_url) as connection:
        return {table: _rows(connection, table) for table in _tables(connection)}


def put_back(database_url: str, kept: Kept) -> None:
    """These rows, and no others. Sequences go on, so what is new has new numbers."""
    names = [f'"{table}"' for table in kept]
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        for statement in emptied(names):
            cursor.execute(statement.encode())
        for table, rows in kept.items():
            if rows:
                with cursor.copy(f'COPY "{table}" FROM STDIN'.encode()) as copy:
                    copy.write(rows)


def _tables(connection: psycopg.Connection) -> list[str]:
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    return [name for (name,) in found if not name.startswith(MADE_BY_MIGRATIONS)]


def _rows(connection: psycopg.Connection, table: str) -> bytes:
    with connection.cursor().copy(f'COPY "{table}" TO STDOUT'.encode()) as copy:
        return b"".join(copy)
