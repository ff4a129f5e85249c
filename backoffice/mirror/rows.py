"""Rows in SQL: what is known, what is new by COPY, what changed by a staged upsert."""

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
from backoffice.mirror.column_errors import NotFitting, fit_row
from backoffice.mirror.datetime_limits import keep_readable
from backoffice.mirror.tables import (
    ChildTable,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
    key_text,
)
from backoffice.mirror.unknown_values import UnknownValueCounter
from backoffice.models import Drift
from backoffice.service import DroppedField, digest_of


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A row as far as facts are compared with it: `order` is its version and when it was asked
    for; the last byte of `digest` tells how the columns were made, not what was sent."""

    digest: bytes
    missing: datetime | None
    order: tuple[Any, ...]


StoredVersions: TypeAlias = dict[RecordKey, StoredVersion]


def known(table: MirrorTable, keys: Sequence[RecordKey], *, lock: bool = False) -> StoredVersions:
    """What is stored under these keys. `lock`: nobody changes it until the transaction ends."""
    if not keys:
        return {}
    width = len(table.key)
    columns = (*table.key, "content_hash", "missing_since", *table.version, "as_of")
    # In key order, so that two workers wait for each other instead of deadlocking.
    locking = f' ORDER BY {listed(table.key, table.name)} FOR NO KEY UPDATE OF "{table.name}"'
    found = binary_rows.fetched(
        f'SELECT {listed(columns, table.name)} FROM "{table.name}" JOIN {keys_as_rows(table)}'
        f" ON {same_key(table, table.name, 'wanted')}{locking if lock else ''}",
        columns_of(keys),
    )
    return {
        row[:width]: StoredVersion(row[width], row[width + 1], row[width + 2 :]) for row in found
    }


def rows_of(
    table: MirrorTable,
    records: list[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None],
    strange: UnknownValueCounter,
    below: Sequence[list[RowValues]] = (),
    emptied: list[DroppedField] | None = None,
) -> Iterator[RowValues]:
    """Rows as they are sent; those of children are gathered in `below`, to be sent next.

    PostgreSQL stores a row while the next is made: all that happens here costs no time. With
    `emptied`, columns whose values do not fit are empty in the row, and noted there.
    """
    for record in records:
        row = dict(zip(table.key, record.key, strict=True))
        row.update(table.promote(record))
        row["record"] = record.raw.decode()
        row["content_hash"] = content_hash(record, table)
        row["as_of"] = record.as_of
        if emptied is not None:
            emptied += fit_row(table.model, row, (*table.key, *table.version))
        keep_readable((row,), table.moments)
        strange.look_at(row)
        for field in table.sealed:
            row[field.attname] = field.stored(row[field.attname], row[field.bound.attname])
        for children, gathered in zip(table.children, below, strict=False):
            gathered += _child_rows(children, record, emptied)
        for_each_row(record)
        yield row


def content_hash(record: MirrorRecord, table: MirrorTable) -> bytes:
    digest = record.digest or digest_of(record.raw)
    if table.sealed:
        # A plain digest would tell who guesses the few digits that are not known otherwise.
        digest = fingerprint(digest)
    return digest[:15] + table.revision.to_bytes(1, "big")


def _copy(
    cursor: CursorWrapper,
    target: str,
    rows: Iterator[RowValues],
) -> tuple[str, ...]:
    """Send rows by COPY; returns their columns, none where there was no row."""
    first = next(rows, None)
    if first is None:
        return ()
    with (
        connection.wrap_database_errors,
        cursor.copy(f'COPY "{target}" ({listed(first)}) FROM STDIN') as copy,
    ):
        for row in chain([first], rows):
            copy.write_row(tuple(row.values()))
    return tuple(first)


def copied(cursor: CursorWrapper, table: MirrorTable, rows: Iterator[RowValues]) -> bool:
    """Copy rows straight into the table; False, and nothing done, where one exists already."""
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
    """Send rows to a temporary table like `target`; its name, and the columns sent."""
    stage = f"stage_{target}"
    cursor.execute(
        f'CREATE TEMP TABLE IF NOT EXISTS "{stage}" ON COMMIT DELETE ROWS AS'
        f' SELECT * FROM "{target}" WITH NO DATA; DELETE FROM "{stage}"'
    )
    return stage, _copy(cursor, stage, rows)


def upsert(
    cursor: CursorWrapper, table: MirrorTable, rows: Iterator[RowValues], latest: datetime | None
) -> set[RecordKey]:
    """Write staged rows where they are newer; returns the keys that were."""
    stage, columns = _stage(cursor, table.name, rows)
    updates = ", ".join(
        f'"{column}" = EXCLUDED."{column}"' for column in columns if column not in table.key
    )
    order = (*table.version, "as_of")
    newer = f"({listed(order, 'excluded')}) > ({listed(order, table.name)})"
    if latest is not None:
        moments = f'excluded."{order[0]}", "{table.name}"."{order[0]}"'
        newer = (
            f"CASE WHEN greatest({moments}) > %s"
            f' THEN excluded.as_of > "{table.name}".as_of ELSE {newer} END'
        )
    cursor.execute(
        f'INSERT INTO "{table.name}" ({listed(columns)})'
        f' SELECT {listed(columns)} FROM "{stage}" ORDER BY {listed(table.key)}'
        f" ON CONFLICT ({listed(table.key)}) DO UPDATE SET {updates}, missing_since = NULL"
        f" WHERE {newer}"
        f' AND ("{table.name}".missing_since IS NULL'
        f' OR excluded.as_of > "{table.name}".missing_since)'
        f" RETURNING {listed(table.key, table.name)}",
        [] if latest is None else [latest],
    )
    return set(cursor.fetchall())


def bring_children(
    cursor: CursorWrapper,
    children: ChildTable,
    changed: list[MirrorRecord],
    fresh: list[RowValues],
    emptied: list[DroppedField] | None = None,
) -> None:
    later = [row for record in changed for row in _child_rows(children, record, emptied)]
    if children.vocabularies:
        strange = UnknownValueCounter(children.vocabularies)
        for row in chain(fresh, later):
            strange.look_at(row)
        strange.note(cursor)
    if changed and children.replace:
        cursor.execute(
            f'DELETE FROM "{children.name}" WHERE "{children.parent}" = ANY(%s)',
            [[record.key[0] for record in changed]],
        )
        fresh, later = fresh + later, []
    _copy(cursor, children.name, iter(fresh))
    if later:
        _add(cursor, children, later)


def replace_children(
    cursor: CursorWrapper, children: ChildTable, records: Sequence[MirrorRecord]
) -> None:
    """Rows below these facts, made anew."""
    cursor.execute(
        f'DELETE FROM "{children.name}" WHERE "{children.parent}" = ANY(%s)',
        [[record.key[0] for record in records]],
    )
    made = (row for record in records for row in _child_rows(children, record))
    _copy(cursor, children.name, made)


def _child_rows(
    children: ChildTable, record: MirrorRecord, emptied: list[DroppedField] | None = None
) -> list[RowValues]:
    rows = list(children.rows(record))
    if emptied is not None:
        rows = _fitting_rows(children, rows, emptied)
    keep_readable(rows, children.moments)
    return rows


def _fitting_rows(
    children: ChildTable, rows: list[RowValues], emptied: list[DroppedField]
) -> list[RowValues]:
    fitting = []
    for row in rows:
        try:
            emptied += fit_row(children.model, row, (children.parent, *children.key))
        except NotFitting as misfit:
            emptied.append(DroppedField(f"$.{misfit}", "A row without it is of no use"))
        else:
            fitting.append(row)
    return fitting


def add_child_rows(children: ChildTable, rows: list[RowValues]) -> None:
    """Add rows that are not there; one that is there with other values is drift, and stays."""
    keep_readable(rows, children.moments)
    with connection.cursor() as cursor:
        _add(cursor, children, rows)


def _add(cursor: CursorWrapper, children: ChildTable, rows: list[RowValues]) -> None:
    stage, columns = _stage(cursor, children.name, iter(rows))
    values = [column for column in columns if column not in children.key]
    key, sent = listed(children.key), listed(columns)
    cursor.execute(
        f"WITH compared AS MATERIALIZED (SELECT {listed(columns, 'fresh')},"
        f' old."{children.parent}" IS NULL AS is_new,'
        f" ({listed(values, 'fresh')}) IS DISTINCT FROM ({listed(values, 'old')}) AS differs"
        f' FROM "{stage}" AS fresh LEFT JOIN "{children.name}" AS old USING ({key})),'
        f' added AS (INSERT INTO "{children.name}" ({sent})'
        f" SELECT {sent} FROM compared WHERE is_new ORDER BY {key} ON CONFLICT DO NOTHING)"
        f" SELECT {key} FROM compared WHERE differs AND NOT is_new"
    )
    Drift.objects.bulk_create(
        Drift(resource=children.name, key=key_text(each), kind=Drift.Kind.HISTORY_CONFLICT)
        for each in cursor.fetchall()
    )


def keys_as_rows(table: MirrorTable) -> str:
    """`unnest` of one array per key column, named `wanted`."""
    arrays = []
    for column in table.key:
        model_field = next(f for f in table.model._meta.fields if f.column == column)
        arrays.append(f"%s::{model_field.rel_db_type(connection)}[]")
    return f"unnest({', '.join(arrays)}) AS wanted({listed(table.key)})"


def columns_of(keys: Sequence[RecordKey]) -> list[Any]:
    return [_array(column) for column in zip(*keys, strict=True)]


def _array(values: tuple[Any, ...]) -> list[Any] | str:
    return uuid_array(values) if isinstance(values[0], UUID) else list(values)


def uuid_array(keys: Iterable[UUID]) -> str:
    """An array parameter as text, which costs a tenth of adapting each key."""
    return "{" + ",".join([key.hex for key in keys]) + "}"


def same_key(table: MirrorTable, left: str, right: str) -> str:
    return " AND ".join(f'"{left}"."{column}" = "{right}"."{column}"' for column in table.key)


def listed(columns: Iterable[str], of: str = "") -> str:
    prefix = f'"{of}".' if of else ""
    return ", ".join(f'{prefix}"{column}"' for column in columns)
