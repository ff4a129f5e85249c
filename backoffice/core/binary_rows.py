"""Rows in PostgreSQL's binary format.

As text, every byte is sent as two letters and every moment is parsed in Python: half of what
reading a thousand of them costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import connection


def fetch_all(statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement of ours, in the caller's transaction; errors are Django's."""
    connection.ensure_connection()
    assert connection.connection is not None
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        return cursor.execute(statement.encode(), parameters, binary=True).fetchall()
