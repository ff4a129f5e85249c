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
from backoffice.mirror.tables import Fact, Key, Outcome, Table, Values, key_text
from backoffice.mirror.unknown_values import Strange
from backoffice.mirror.unreadable_records import keep_partly_read, keep_unread, now_read
from backoffice.models import Drift
from backoffice.service import DroppedField, Unreadable


class _TooLong(Exception):
    """A value longer than an index can hold."""


class NotStored(Exception):
    """A record that could not be stored where it had to be."""

    def __init__(self, unreadable: Unreadable) -> None:
        super().__init__("the record could not be stored")
        self.unreadable = unreadable


_must_store: ContextVar[bool] = ContextVar("must_store", default=False)


@contextmanager
def storing_all() -> Iterator[None]:
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
    table: Table,
    facts: Iterable[Fact],
    along: Callable[[Fact], None] = lambda fact: None,
    known: rows.Known | None = None,
) -> Outcome:
    """Bring `table` up to date with `facts`, inside the caller's transaction.

    Several facts about one key count as one, the newest. `along` is called with each fact whose
    row is sent, maybe more than once, while PostgreSQL stores the row before it: what it gathers
    for later costs no time. `known` is what the table has, where the caller looked with locks.
    """
    newest: dict[Key, Fact] = {}
    latest = table.latest()
    for fact in facts:
        key = _in_order(fact.key)
        other = newest.get(key)
        if other is None or not _newer(other.order, fact.order, latest):
            newest[key] = fact
    return _isolating(table, [newest[key] for key in sorted(newest)], along, known)


def flag_missing(table: Table, keys: Sequence[Key], asked_at: datetime) -> int:
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
    table: Table, facts: list[Fact], along: Callable[[Fact], None], known: rows.Known | None
) -> Outcome:
    if not facts:
        return Outcome()
    try:
        with transaction.atomic():
            return _apply_fitting(table, facts, along, known)
    except UNFIT as error:
        if len(facts) > 1:
            middle = len(facts) // 2
            outcome = _isolating(table, facts[:middle], along, known)
            outcome += _isolating(table, facts[middle:], along, known)
            return outcome
        return _alone(table, facts[0], along, known, error)


def _alone(
    table: Table,
    fact: Fact,
    along: Callable[[Fact], None],
    known: rows.Known | None,
    error: Exception,
) -> Outcome:
    """A record that was refused: without the columns that do not fit, else kept as unread."""
    emptied: list[DroppedField] = []
    try:
        with transaction.atomic():
            return _apply_fitting(table, [fact], along, known, emptied)
    except UNFIT:
        key = key_text(fact.key)
        reason = type(error).__name__
        if _must_store.get():
            raise NotStored(Unreadable(fact.raw, "", reason, fact.as_of)) from None
        keep_unread(table.name, key, "", reason, fact.raw)
        return Outcome(unread=1, unread_keys=[key])


def _apply_fitting(
    table: Table,
    facts: list[Fact],
    along: Callable[[Fact], None],
    known: rows.Known | None,
    emptied: list[DroppedField] | None = None,
) -> Outcome:
    try:
        return _apply(table, facts, along, known, emptied)
    except OperationalError as error:
        # Django files this one with lost connections; it is about a record.
        if isinstance(error.__cause__, psycopg.errors.ProgramLimitExceeded):
            raise _TooLong from error
        raise


def _apply(
    table: Table,
    facts: list[Fact],
    along: Callable[[Fact], None],
    known: rows.Known | None,
    emptied: list[DroppedField] | None,
) -> Outcome:
    outcome = Outcome()
    new: list[Fact] = []
    stale: list[Fact] = []
    latest = table.latest()
    if known is None:
        known = rows.known(table, [fact.key for fact in facts])
    with connection.cursor() as cursor:
        for fact in facts:
            stored = known.get(fact.key) if known else None
            if stored is None:
                new.append(fact)
            elif stored.digest == rows.content_hash(fact, table) and not stored.missing:
                outcome.unchanged += 1
            elif stored.missing and fact.as_of <= stored.missing:
                outcome.older += 1  # Asked before the service was found to have it no more.
            elif _newer(fact.order, stored.order, latest):
                stale.append(fact)
            else:
                outcome.older += 1
        strange = Strange(table.vocabularies)
        below: list[list[Values]] = [[] for _ in table.children]
        if new and rows.copied(
            cursor, table, rows.rows_of(table, new, along, strange, below, emptied)
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
            fresh_rows = rows.rows_of(table, stale, along, strange, (), emptied)
            won = rows.upsert(cursor, table, fresh_rows, latest)
            outcome.changed = [fact for fact in stale if fact.key in won]
            outcome.older += len(stale) - len(outcome.changed)
        for children, fresh in zip(table.children, below, strict=True):
            rows.bring_children(cursor, children, outcome.changed, fresh, emptied)
        strange.note(cursor)
    if outcome.touched:
        now_read(table.name, (key_text(fact.key) for fact in outcome.touched))
        for fact in outcome.touched:
            if fact.dropped or emptied:
                dropped = (*fact.dropped, *(emptied or ()))
                keep_partly_read(table.name, key_text(fact.key), dropped, fact.raw)
        _tell(table, [fact.key for fact in outcome.touched])
    return outcome


def _tell(table: Table, keys: Sequence[Key]) -> None:
    """Tell pages that stand open which rows have changed."""
    join = f"JOIN {rows.keys_as_rows(table)} ON {rows.same_key(table, table.name, 'wanted')}"
    changes.rows_changed(table.model, join, rows.columns_of(keys), len(keys))


def _newer(one: tuple[Any, ...], other: tuple[Any, ...], latest: datetime | None) -> bool:
    """Whether one is newer than the other, by their versions, then by when they were asked for."""
    if latest is not None and max(one[0], other[0]) > latest:
        return bool(one[-1] > other[-1])
    return one > other


def _in_order(key: Key) -> Key:
    """Sorts like the database, and faster than comparing UUIDs."""
    return tuple([part.int if isinstance(part, UUID) else part for part in key])
