"""SQL for mirrored rows: read their versions, COPY new rows, upsert changed rows from a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper

from backoffice.core import binary_rows
from backoffice.core.installation import fingerprint
from backoffice.mirror.column_errors import UnusableValue, clear_unusable_columns
from backoffice.mirror.datetime_limits import check_datetime_range
from backoffice.mirror.models import Drift
from backoffice.mirror.tables import (
    ChildTable,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
    SortKey,
    key_text,
)
from backoffice.mirror.unknown_values import UnknownValueCounter
from backoffice.service import DroppedField, digest_of


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """The part of a stored row that new records are compared with.

    `sort_key` is its version and the time it was requested. The last byte of `digest` is the
    revision of the promotion; the others depend on what the service sent.
    """

    digest: bytes
    missing_since: datetime | None
    sort_key: SortKey


StoredVersions: TypeAlias = dict[RecordKey, StoredVersion]


def stored_versions(
    table: MirrorTable, keys: Sequence[RecordKey], *, lock: bool = False
) -> StoredVersions:
    """Return the versions stored under these keys. `lock`: lock the rows until the commit."""
    if not keys:
        return {}
    width = len(table.key)
    columns = (*table.key, "content_hash", "missing_since", *table.version, "as_of")
    # Lock in key order, so that two workers wait for each other instead of deadlocking.
    locking = f' ORDER BY {column_list(table.key, table.name)} FOR NO KEY UPDATE OF "{table.name}"'
    rows = binary_rows.fetch_all(
        f'SELECT {column_list(columns, table.name)} FROM "{table.name}" JOIN {unnest_keys(table)}'
        f" ON {key_condition(table, table.name, 'requested')}{locking if lock else ''}",
        key_arrays(keys),
    )
    return {
        row[:width]: StoredVersion(row[width], row[width + 1], row[width + 2 :]) for row in rows
    }


def build_rows(
    table: MirrorTable,
    records: list[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None],
    unknown: UnknownValueCounter,
    child_rows: Sequence[list[RowValues]] = (),
    dropped_fields: list[DroppedField] | None = None,
) -> Iterator[RowValues]:
    """Yield rows as they are sent; collect their child rows in `child_rows`, to be sent next.

    PostgreSQL stores one row while the next is built, so the work here costs no time. With
    `dropped_fields`, columns with unusable values are emptied and added to that list.
    """
    for record in records:
        row = dict(zip(table.key, record.key, strict=True))
        row.update(table.promote(record))
        row["record"] = record.raw.decode()
        row["content_hash"] = content_hash(record, table)
        row["as_of"] = record.as_of
        if dropped_fields is not None:
            dropped_fields += clear_unusable_columns(table.model, row, (*table.key, *table.version))
        check_datetime_range((row,), table.datetime_columns)
        unknown.count(row)
        for field in table.encrypted_columns:
            row[field.attname] = field.stored_value(
                row[field.attname], row[field.binding_field.attname]
            )
        for children, rows_of_table in zip(table.children, child_rows, strict=False):
            rows_of_table += _child_rows(children, record, dropped_fields)
        for_each_row(record)
        yield row


def content_hash(record: MirrorRecord, table: MirrorTable) -> bytes:
    digest = record.digest or digest_of(record.raw)
    if table.encrypted_columns:
        # Encrypted values can have few unknown digits. With a plain digest, somebody could guess
        # them and check the guess, so the digest is keyed.
        digest = fingerprint(digest)
    return digest[:15] + table.revision.to_bytes(1, "big")


def _copy(
    cursor: CursorWrapper,
    target: str,
    rows: Iterator[RowValues],
) -> tuple[str, ...]:
    """Send rows by COPY; return their columns, or none if there was no row."""
    first = next(rows, None)
    if first is None:
        return ()
    with (
        connection.wrap_database_errors,
        cursor.copy(f'COPY "{target}" ({column_list(first)}) FROM STDIN') as copy,
    ):
        for row in chain([first], rows):
            copy.write_row(tuple(row.values()))
    return tuple(first)


def copy_new_rows(cursor: CursorWrapper, table: MirrorTable, rows: Iterator[RowValues]) -> bool:
    """Copy rows into the table; return False, with nothing written, if one exists already."""
    try:
        with transaction.atomic():
            _copy(cursor, table.name, rows)
    except IntegrityError as error:
        if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
            raise
        return False
    return True


def _stage(
    cursor: CursorWrapper, target: str, rows: Iterator[RowValues]
) -> tuple[str, tuple[str, ...]]:
    """Send rows to a temporary table like `target`; return its name and the columns sent."""
    stage = f"stage_{target}"
    cursor.execute(
        f'CREATE TEMP TABLE IF NOT EXISTS "{stage}" ON COMMIT DELETE ROWS AS'
        f' SELECT * FROM "{target}" WITH NO DATA; DELETE FROM "{stage}"'
    )
    return stage, _copy(cursor, stage, rows)


def upsert(
    cursor: CursorWrapper, table: MirrorTable, rows: Iterator[RowValues], latest: datetime | None
) -> set[RecordKey]:
    """Write rows that are newer than the stored ones; return their keys."""
    stage, columns = _stage(cursor, table.name, rows)
    updates = ", ".join(
        f'"{column}" = EXCLUDED."{column}"' for column in columns if column not in table.key
    )
    order = (*table.version, "as_of")
    newer = f"({column_list(order, 'excluded')}) > ({column_list(order, table.name)})"
    if latest is not None:
        moments = f'excluded."{order[0]}", "{table.name}"."{order[0]}"'
        newer = (
            f"CASE WHEN greatest({moments}) > %s"
            f' THEN excluded.as_of > "{table.name}".as_of ELSE {newer} END'
        )
    cursor.execute(
        f'INSERT INTO "{table.name}" ({column_list(columns)})'
        f' SELECT {column_list(columns)} FROM "{stage}" ORDER BY {column_list(table.key)}'
        f" ON CONFLICT ({column_list(table.key)}) DO UPDATE SET {updates}, missing_since = NULL"
        f" WHERE {newer}"
        f' AND ("{table.name}".missing_since IS NULL'
        f' OR excluded.as_of > "{table.name}".missing_since)'
        f" RETURNING {column_list(table.key, table.name)}",
        [] if latest is None else [latest],
    )
    return set(cursor.fetchall())


def write_children(
    cursor: CursorWrapper,
    children: ChildTable,
    changed: list[MirrorRecord],
    new_rows: list[RowValues],
    dropped_fields: list[DroppedField] | None = None,
) -> None:
    """Write the child rows of new records (`new_rows`) and of changed records."""
    changed_rows = [
        row for record in changed for row in _child_rows(children, record, dropped_fields)
    ]
    if children.vocabularies:
        unknown = UnknownValueCounter(children.vocabularies)
        for row in chain(new_rows, changed_rows):
            unknown.count(row)
        unknown.save(cursor)
    if changed and children.replace:
        cursor.execute(
            f'DELETE FROM "{children.name}" WHERE "{children.parent}" = ANY(%s)',
            [[record.key[0] for record in changed]],
        )
        new_rows, changed_rows = new_rows + changed_rows, []
    _copy(cursor, children.name, iter(new_rows))
    if changed_rows:
        _add_new_rows(cursor, children, changed_rows)


def replace_children(
    cursor: CursorWrapper, children: ChildTable, records: Sequence[MirrorRecord]
) -> None:
    """Replace the child rows of these records."""
    cursor.execute(
        f'DELETE FROM "{children.name}" WHERE "{children.parent}" = ANY(%s)',
        [[record.key[0] for record in records]],
    )
    child_rows = (row for record in records for row in _child_rows(children, record))
    _copy(cursor, children.name, child_rows)


def _child_rows(
    children: ChildTable, record: MirrorRecord, dropped_fields: list[DroppedField] | None = None
) -> list[RowValues]:
    rows = list(children.rows(record))
    if dropped_fields is not None:
        rows = _usable_rows(children, rows, dropped_fields)
    check_datetime_range(rows, children.datetime_columns)
    return rows


def _usable_rows(
    children: ChildTable, rows: list[RowValues], dropped_fields: list[DroppedField]
) -> list[RowValues]:
    usable = []
    for row in rows:
        try:
            dropped_fields += clear_unusable_columns(
                children.model, row, (children.parent, *children.key)
            )
        except UnusableValue as error:
            dropped_fields.append(DroppedField(f"$.{error}", "A row without it is of no use"))
        else:
            usable.append(row)
    return usable


def add_child_rows(children: ChildTable, rows: list[RowValues]) -> None:
    """Add new child rows; a stored row with other values is kept and recorded as drift."""
    check_datetime_range(rows, children.datetime_columns)
    with connection.cursor() as cursor:
        _add_new_rows(cursor, children, rows)


def _add_new_rows(cursor: CursorWrapper, children: ChildTable, rows: list[RowValues]) -> None:
    stage, columns = _stage(cursor, children.name, iter(rows))
    values = [column for column in columns if column not in children.key]
    key, sent = column_list(children.key), column_list(columns)
    cursor.execute(
        f"WITH compared AS MATERIALIZED (SELECT {column_list(columns, 'fresh')},"
        f' old."{children.parent}" IS NULL AS is_new,'
        f" ({column_list(values, 'fresh')}) IS DISTINCT FROM"
        f" ({column_list(values, 'old')}) AS differs"
        f' FROM "{stage}" AS fresh LEFT JOIN "{children.name}" AS old USING ({key})),'
        f' added AS (INSERT INTO "{children.name}" ({sent})'
        f" SELECT {sent} FROM compared WHERE is_new ORDER BY {key} ON CONFLICT DO NOTHING)"
        f" SELECT {key} FROM compared WHERE differs AND NOT is_new"
    )
    Drift.objects.bulk_create(
        Drift(resource=children.name, key=key_text(key), kind=Drift.Kind.HISTORY_CONFLICT)
        for key in cursor.fetchall()
    )


def unnest_keys(table: MirrorTable) -> str:
    """Return SQL that unnests one array per key column, as table `requested`."""
    arrays = []
    for column in table.key:
        model_field = next(f for f in table.model._meta.fields if f.column == column)
        arrays.append(f"%s::{model_field.rel_db_type(connection)}[]")
    return f"unnest({', '.join(arrays)}) AS requested({column_list(table.key)})"


def key_arrays(keys: Sequence[RecordKey]) -> list[str | list[Any]]:
    """Return the keys as one array parameter per column."""
    return [
        uuid_array(values) if isinstance(values[0], UUID) else list(values)
        for values in zip(*keys, strict=True)
    ]


def uuid_array(keys: Iterable[UUID]) -> str:
    """Return an array parameter as text, which costs a tenth of adapting each key."""
    return "{" + ",".join([key.hex for key in keys]) + "}"


def key_condition(table: MirrorTable, left: str, right: str) -> str:
    return " AND ".join(f'"{left}"."{column}" = "{right}"."{column}"' for column in table.key)


def column_list(columns: Iterable[str], table: str = "") -> str:
    prefix = f'"{table}".' if table else ""
    return ", ".join(f'{prefix}"{column}"' for column in columns)
