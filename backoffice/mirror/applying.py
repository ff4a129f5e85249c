"""Compare batches of records with the stored rows, write them, and flag missing records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from uuid import UUID

import psycopg
from django.db import DataError, IntegrityError, OperationalError, connection, transaction

from backoffice.core import live_changes
from backoffice.mirror import rows
from backoffice.mirror.models import Drift
from backoffice.mirror.tables import (
    ApplyOutcome,
    MirrorRecord,
    MirrorTable,
    RecordKey,
    RowValues,
    SortKey,
    key_text,
)
from backoffice.mirror.unknown_values import UnknownValueCounter
from backoffice.mirror.unreadable_records import (
    clear_unreadable,
    save_partly_readable,
    save_unreadable,
)
from backoffice.service import DroppedField, Unreadable


class RecordNotStored(Exception):
    """A record could not be stored, inside `require_storage`."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__("the record could not be stored")
        self.unreadable = unreadable


_must_store: ContextVar[bool] = ContextVar("must_store", default=False)


@contextmanager
def require_storage() -> Iterator[None]:
    """Make `apply_batch` raise RecordNotStored for a record that cannot be stored.

    Without it, `apply_batch` saves the record as unreadable and goes on; a caller that asked for
    that one record would take it as done.
    """
    token = _must_store.set(True)
    try:
        yield
    finally:
        _must_store.reset(token)


_RECORD_ERRORS = (
    DataError,
    IntegrityError,
    ValueError,  # includes UnicodeError
    TypeError,
    AttributeError,
    OverflowError,
)
"""Errors that a single record can cause; any other error stops the batch."""


def apply_batch(
    table: MirrorTable,
    records: Iterable[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None] = lambda record: None,
    stored: rows.StoredVersions | None = None,
) -> ApplyOutcome:
    """Bring `table` up to date with `records`, inside the caller's transaction.

    Of several records with one key only the newest counts. `for_each_row` is called with each
    record that is sent as a row, maybe more than once, while PostgreSQL stores the row before it,
    so its work costs no time. `stored` has the versions in the table, if the caller read them with
    locks.
    """
    newest: dict[RecordKey, MirrorRecord] = {}
    latest = table.max_plausible_version()
    for record in records:
        key = _sortable_key(record.key)
        newest_yet = newest.get(key)
        if newest_yet is None or not _is_newer(newest_yet.sort_key, record.sort_key, latest):
            newest[key] = record
    outcome = ApplyOutcome()
    batches = [[newest[key] for key in sorted(newest)]] if newest else []
    while batches:
        batch = batches.pop()
        try:
            with transaction.atomic():
                applied = _apply(table, batch, for_each_row, stored)
        except Exception as error:
            if not _is_about_record(error):
                raise
            if len(batch) == 1:
                outcome += _apply_one(table, batch[0], for_each_row, stored, error)
            else:
                middle = len(batch) // 2
                batches += [batch[middle:], batch[:middle]]
        else:
            outcome += applied
    return outcome


def flag_missing(table: MirrorTable, keys: Sequence[RecordKey], asked_at: datetime) -> int:
    """Mark these records as missing at the service, keep their rows, and return how many."""
    if not keys:
        return 0
    key = rows.column_list(table.key, table.name)
    with connection.cursor() as cursor:
        cursor.execute(
            f'UPDATE "{table.name}" SET missing_since = %s FROM {rows.unnest_keys(table)}'
            f" WHERE {rows.key_condition(table, table.name, 'requested')}"
            f' AND "{table.name}".missing_since IS NULL AND "{table.name}".as_of < %s'
            f" RETURNING {key}",
            [asked_at, *rows.key_arrays(keys), asked_at],
        )
        flagged = cursor.fetchall()
    Drift.objects.bulk_create(
        Drift(resource=table.name, key=key_text(flagged_key), kind=Drift.Kind.MISSING_REMOTE)
        for flagged_key in flagged
    )
    if flagged:
        _record_change(table, flagged)
    return len(flagged)


def _is_about_record(error: Exception) -> bool:
    """Return whether one record of a batch may have caused the error."""
    if isinstance(error, OperationalError):
        # Django maps a value too long for its index to OperationalError, like lost connections.
        return isinstance(error.__cause__, psycopg.errors.ProgramLimitExceeded)
    return isinstance(error, _RECORD_ERRORS)


def _apply_one(
    table: MirrorTable,
    record: MirrorRecord,
    for_each_row: Callable[[MirrorRecord], None],
    stored: rows.StoredVersions | None,
    error: Exception,
) -> ApplyOutcome:
    """Apply a record that was refused, without its unusable columns; else save it as unreadable."""
    dropped_fields: list[DroppedField] = []
    try:
        with transaction.atomic():
            return _apply(table, [record], for_each_row, stored, dropped_fields)
    except Exception as second_error:
        if not _is_about_record(second_error):
            raise
        key = key_text(record.key)
        cause = error.__cause__ if isinstance(error, OperationalError) else error
        reason = type(cause).__name__
        if _must_store.get():
            raise RecordNotStored(Unreadable(record.raw, "", reason, record.as_of)) from None
        save_unreadable(table.name, key, "", reason, record.raw)
        return ApplyOutcome(unreadable=1, unreadable_keys=[key])


def _apply(
    table: MirrorTable,
    records: list[MirrorRecord],
    for_each_row: Callable[[MirrorRecord], None],
    stored: rows.StoredVersions | None,
    dropped_fields: list[DroppedField] | None = None,
) -> ApplyOutcome:
    outcome = ApplyOutcome()
    new: list[MirrorRecord] = []
    outdated: list[MirrorRecord] = []
    latest = table.max_plausible_version()
    if stored is None:
        stored = rows.stored_versions(table, [record.key for record in records])
    with connection.cursor() as cursor:
        for record in records:
            version = stored.get(record.key)
            if version is None:
                new.append(record)
            elif version.digest == rows.content_hash(record, table) and not version.missing_since:
                outcome.unchanged += 1
            elif version.missing_since and record.as_of <= version.missing_since:
                outcome.older += 1  # Requested before the record was found missing.
            elif _is_newer(record.sort_key, version.sort_key, latest):
                outdated.append(record)
            else:
                outcome.older += 1
        unknown = UnknownValueCounter(table.vocabularies)
        child_rows: list[list[RowValues]] = [[] for _ in table.children]
        if new and rows.copy_new_rows(
            cursor,
            table,
            rows.build_rows(table, new, for_each_row, unknown, child_rows, dropped_fields),
        ):
            outcome.created = new
        else:
            # Another worker inserted one of them since we read: let the upsert decide.
            unknown.counts.clear()
            for rows_of_table in child_rows:
                rows_of_table.clear()
            outdated += new
        if outdated:
            if dropped_fields:
                dropped_fields.clear()
            new_rows = rows.build_rows(table, outdated, for_each_row, unknown, (), dropped_fields)
            written_keys = rows.upsert(cursor, table, new_rows, latest)
            outcome.changed = [record for record in outdated if record.key in written_keys]
            outcome.older += len(outdated) - len(outcome.changed)
        for children, new_rows_of_table in zip(table.children, child_rows, strict=True):
            rows.write_children(
                cursor, children, outcome.changed, new_rows_of_table, dropped_fields
            )
        unknown.save(cursor)
    if outcome.touched:
        clear_unreadable(table.name, (key_text(record.key) for record in outcome.touched))
        for record in outcome.touched:
            if record.dropped or dropped_fields:
                dropped = (*record.dropped, *(dropped_fields or ()))
                save_partly_readable(table.name, key_text(record.key), dropped, record.raw)
        _record_change(table, [record.key for record in outcome.touched])
    return outcome


def _record_change(table: MirrorTable, keys: Sequence[RecordKey]) -> None:
    """Record for open pages which rows have changed."""
    join = f"JOIN {rows.unnest_keys(table)} ON {rows.key_condition(table, table.name, 'requested')}"
    live_changes.record_row_changes(table.model, join, rows.key_arrays(keys), len(keys))


def _is_newer(sort_key: SortKey, other: SortKey, latest: datetime | None) -> bool:
    """Return whether a sort key is newer: by version, then by the time of the request.

    Versions after `latest` are ignored.
    """
    if latest is not None and max(sort_key[0], other[0]) > latest:
        return bool(sort_key[-1] > other[-1])
    return sort_key > other


def _sortable_key(key: RecordKey) -> RecordKey:
    """Return a key that sorts like the database, and faster than comparing UUIDs."""
    return tuple([part.int if isinstance(part, UUID) else part for part in key])
