"""Promote columns again from stored records, after a change of the promotion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import connection

from backoffice.mirror import rows
from backoffice.mirror.tables import MirrorRecord, MirrorTable, RecordKey


def already_stored_keys(
    stored: rows.StoredVersions, records: Iterable[MirrorRecord], table: MirrorTable
) -> set[RecordKey]:
    """Return the keys of records that are stored already, even if promoted differently."""
    stored_keys = set()
    for record in records:
        version = stored.get(record.key)
        if version and version.digest[:-1] == rows.content_hash(record, table)[:-1]:
            stored_keys.add(record.key)
    return stored_keys


def promote_again(table: MirrorTable, records: Sequence[MirrorRecord]) -> None:
    """Rewrite the promoted columns and child rows from the stored records.

    Runs in the caller's transaction; the caller has read the records and holds locks on their rows.
    """
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
