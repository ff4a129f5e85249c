"""The distinct values of an indexed column, found by one step of the index for each value."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model


def distinct_values(
    model: type[Model], column: str, limit: int | None = None, condition: str = "TRUE"
) -> list[str]:
    """Return the distinct values of a column in ascending order, at most `limit`. One query.

    An index must begin with the column, and have the SQL `condition` if there is one.
    """
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH RECURSIVE found (value) AS (
                (SELECT {column} FROM {table} WHERE {condition} ORDER BY {column} LIMIT 1)
                UNION ALL
                SELECT (SELECT {column} FROM {table} WHERE {condition} AND {column} > found.value
                        ORDER BY {column} LIMIT 1)
                FROM found WHERE found.value IS NOT NULL
            )
            SELECT value FROM found WHERE value IS NOT NULL LIMIT %s
            """,  # noqa: S608 - our names
            [limit],
        )
        return [value for (value,) in cursor.fetchall()]
