"""Columns made anew from records that are stored already: their meaning changed, not the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import connection

from backoffice.mirror import rows
from backoffice.mirror.tables import Fact, Key, Table


def same_records(known: rows.Known, facts: Iterable[Fact], table: Table) -> set[Key]:
    """Keys of those facts of which the record is stored already, in whatever reading."""
    same = set()
    for fact in facts:
        stored = known.get(fact.key)
        if stored and stored.digest[:-1] == rows.content_hash(fact, table)[:-1]:
            same.add(fact.key)
    return same


def promote_again(table: Table, facts: Sequence[Fact]) -> None:
    """Write the columns and children of rows anew from their own records, which the caller has
    read and holds locks on, inside the caller's transaction."""
    with connection.cursor() as cursor:
        for fact in facts:
            values = {**table.promote(fact), "content_hash": rows.content_hash(fact, table)}
            columns = ", ".join(f'"{column}" = %s' for column in values)
            key = " AND ".join(f'"{column}" = %s' for column in table.key)
            cursor.execute(
                f'UPDATE "{table.name}" SET {columns} WHERE {key}', [*values.values(), *fact.key]
            )
        for children in table.children:
            rows.replace_children(cursor, children, facts)
