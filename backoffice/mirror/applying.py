"""Batches of facts, compared and written, and rows the service has no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from django.db import DataError, IntegrityError, OperationalError, connection, transaction

from backoffice.core import changes
from backoffice.mirror import rows
from backoffice.mirror.tables import (
    ApplyOutcome,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
    key_text,
)
from backoffice.mirror.unknown_values import UnknownValueCounter
from backoffice.mirror.unreadable_records import (
    clear_unreadable,
    save_partly_readable,
    save_unreadable,
)
from backoffice.models import Drift
from backoffice.service import DroppedField, Unreadable


class _TooLong(Exception):
    """A value longer than an index can hold."""


class RecordNotStored(Exception):
    """A record that could not be stored where it had to be."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__("the record could not be stored")
        self.unreadable = unreadable


_must_store: ContextVar[bool] = ContextVar("must_store", default=False)


@contextmanager
def require_storage() -> Iterator[None]:
    """Inside, `apply` raises NotStored for a record that cannot be stored, instead of keeping it as
    unread and going on: who asked for that one record must not take it for done."""
    token = _must_store.set(True)
    try:
        yield
    finally:
        _must_store.reset(token)


UNFIT = (
    DataError,
    IntegrityError,
    _TooLong,
    ValueError,  # includes UnicodeError
    TypeError,
    AttributeError,
    OverflowError,
)
"""What a single record can cause; anything else stops the batch."""


def apply(
    table: MirrorTable,
    records: Iterable[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None] = lambda record: None,
    known: rows.StoredVersions | None = None,
) -> ApplyOutcome:
    """Bring `table` up to date with `records`, inside the caller's transaction.

    Of several records with one key only the newest counts. `for_each_row` is called with each
    record that is sent as a row, maybe more than once, while PostgreSQL stores the row before it,
    so its work costs no time. `known` is what the table has, if the caller read it with locks.
    """
    newest: dict[RecordKey, MirrorRecord] = {}
    latest = table.latest()
    for record in records:
        key = _in_order(record.key)
        other = newest.get(key)
        if other is None or not _newer(other.order, record.order, latest):
            newest[key] = record
    return _isolating(table, [newest[key] for key in sorted(newest)], for_each_row, known)


def flag_missing(table: MirrorTable, keys: Sequence[RecordKey], asked_at: datetime) -> int:
    """Note that the service no longer has these records; rows are kept. Returns how many."""
    if not keys:
        return 0
    key = rows.listed(table.key, table.name)
    with connection.cursor() as cursor:
        cursor.execute(
            f'UPDATE "{table.name}" SET missing_since = %s FROM {rows.keys_as_rows(table)}'
            f" WHERE {rows.same_key(table, table.name, 'wanted')}"
            f' AND "{table.name}".missing_since IS NULL AND "{table.name}".as_of < %s'
            f" RETURNING {key}",
            [asked_at, *rows.columns_of(keys), asked_at],
        )
        flagged = cursor.fetchall()
    Drift.objects.bulk_create(
        Drift(resource=table.name, key=key_text(found), kind=Drift.Kind.MISSING_REMOTE)
        for found in flagged
    )
    if flagged:
        _tell(table, flagged)
    return len(flagged)


def _isolating(
    table: MirrorTable,
    records: list[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None],
    known: rows.StoredVersions | None,
) -> ApplyOutcome:
    if not records:
        return ApplyOutcome()
    try:
        with transaction.atomic():
            return _apply_fitting(table, records, for_each_row, known)
    except UNFIT as error:
        if len(records) > 1:
            middle = len(records) // 2
            outcome = _isolating(table, records[:middle], for_each_row, known)
            outcome += _isolating(table, records[middle:], for_each_row, known)
            return outcome
        return _alone(table, records[0], for_each_row, known, error)


def _alone(
    table: MirrorTable,
    record: MirrorRecord,
    for_each_row: Callable[[MirrorRecord], None],
    known: rows.StoredVersions | None,
    error: Exception,
) -> ApplyOutcome:
    """A record that was refused: without the columns that do not fit, else kept as unread."""
    emptied: list[DroppedField] = []
    try:
        with transaction.atomic():
            return _apply_fitting(table, [record], for_each_row, known, emptied)
    except UNFIT:
        key = key_text(record.key)
        reason = type(error).__name__
        if _must_store.get():
            raise RecordNotStored(Unreadable(record.raw, "", reason, record.as_of)) from None
        save_unreadable(table.name, key, "", reason, record.raw)
        return ApplyOutcome(unread=1, unread_keys=[key])


def _apply_fitting(
    table: MirrorTable,
    records: list[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None],
    known: rows.StoredVersions | None,
    emptied: list[DroppedField] | None = None,
) -> ApplyOutcome:
    try:
        return _apply(table, records, for_each_row, known, emptied)
    except OperationalError as error:
        # Django files this one with lost connections; it is about a record.
        if isinstance(error.__cause__, psycopg.errors.ProgramLimitExceeded):
            raise _TooLong from error
        raise


def _apply(
    table: MirrorTable,
    records: list[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None],
    known: rows.StoredVersions | None,
    emptied: list[DroppedField] | None,
) -> ApplyOutcome:
    outcome = ApplyOutcome()
    new: list[MirrorRecord] = []
    stale: list[MirrorRecord] = []
    latest = table.latest()
    if known is None:
        known = rows.known(table, [record.key for record in records])
    with connection.cursor() as cursor:
        for record in records:
            stored = known.get(record.key) if known else None
            if stored is None:
                new.append(record)
            elif stored.digest == rows.content_hash(record, table) and not stored.missing:
                outcome.unchanged += 1
            elif stored.missing and record.as_of <= stored.missing:
                outcome.older += 1  # Asked before the service was found to have it no more.
            elif _newer(record.order, stored.order, latest):
                stale.append(record)
            else:
                outcome.older += 1
        strange = UnknownValueCounter(table.vocabularies)
        below: list[list[RowValues]] = [[] for _ in table.children]
        if new and rows.copied(
            cursor, table, rows.rows_of(table, new, for_each_row, strange, below, emptied)
        ):
            outcome.created = new
        else:
            # Another worker inserted one of them since we looked: let the upsert decide.
            strange.met.clear()
            for gathered in below:
                gathered.clear()
            stale += new
        if stale:
            if emptied:
                emptied.clear()
            fresh_rows = rows.rows_of(table, stale, for_each_row, strange, (), emptied)
            won = rows.upsert(cursor, table, fresh_rows, latest)
            outcome.changed = [record for record in stale if record.key in won]
            outcome.older += len(stale) - len(outcome.changed)
        for children, fresh in zip(table.children, below, strict=True):
            rows.bring_children(cursor, children, outcome.changed, fresh, emptied)
        strange.note(cursor)
    if outcome.touched:
        clear_unreadable(table.name, (key_text(record.key) for record in outcome.touched))
        for record in outcome.touched:
            if record.dropped or emptied:
                dropped = (*record.dropped, *(emptied or ()))
                save_partly_readable(table.name, key_text(record.key), dropped, record.raw)
        _tell(table, [record.key for record in outcome.touched])
    return outcome


def _tell(table: MirrorTable, keys: Sequence[RecordKey]) -> None:
    """Tell pages that stand open which rows have changed."""
    join = f"JOIN {rows.keys_as_rows(table)} ON {rows.same_key(table, table.name, 'wanted')}"
    changes.rows_changed(table.model, join, rows.columns_of(keys), len(keys))


def _newer(one: tuple[Any, ...], other: tuple[Any, ...], latest: datetime | None) -> bool:
    """Whether one is newer than the other, by their versions, then by when they were asked for."""
    if latest is not None and max(one[0], other[0]) > latest:
        return bool(one[-1] > other[-1])
    return one > other


def _in_order(key: RecordKey) -> RecordKey:
    """Sorts like the database, and faster than comparing UUIDs."""
    return tuple([part.int if isinstance(part, UUID) else part for part in key])
