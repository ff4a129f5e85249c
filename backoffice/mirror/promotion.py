"""Columns made anew from records that are stored already: their meaning changed, not the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import connection

from backoffice.mirror import rows
from backoffice.mirror.tables import MirrorRecord, MirrorTable, RecordKey


def already_stored_keys(
    known: rows.StoredVersions, records: Iterable[MirrorRecord], table: MirrorTable
) -> set[RecordKey]:
    """Keys of those facts of which the record is stored already, in whatever reading."""
    same = set()
    for record in records:
        stored = known.get(record.key)
        if stored and stored.digest[:-1] == rows.content_hash(record, table)[:-1]:
            same.add(record.key)
    return same


def promote_again(table: MirrorTable, records: Sequence[MirrorRecord]) -> None:
    """Write the columns and children of rows anew from their own records, which the caller has
    read and holds locks on, inside the caller's transaction."""
    with connection.cursor() as cursor:
        for record in records:
            values = {**table.promote(record), "content_hash": rows.content_hash(record, table)}
            columns = ", ".join(f'"{column}" = %s' for column in values)
            key = " AND ".join(f'"{column}" = %s' for column in table.key)
            cursor.execute(
                f'UPDATE "{table.name}" SET {columns} WHERE {key}', [*values.values(), *record.key]
            )
        for children in table.children:
            rows.replace_children(cursor, children, records)
