"""Facts in: the one door through which records of the service become rows.

A batch of facts is compared with what is stored by content hash first. Equal ones cost one read
and write nothing. New ones are copied straight into their table; changed ones are staged and
upserted in one statement, where the newer fact wins: the table's version columns, then the moment
the record was asked for. An older fact changes nothing. Rows are touched in key order, so two
workers with overlapping batches wait for each other instead of deadlocking.

A record that does not fit its columns fails alone: the batch is halved until it stands by itself,
and it is kept whole in `UnreadRecord`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
import psycopg
from django.db import DataError, IntegrityError, OperationalError, connection, models, transaction
from django.db.backends.utils import CursorWrapper

from backoffice import vocabulary
from backoffice.models import Drift, Mirrored, UnreadRecord
from backoffice.service import Record, digest_of

logger = logging.getLogger(__name__)

Key: TypeAlias = tuple[Any, ...]
Values: TypeAlias = dict[str, Any]
"""A row by column; all rows of a kind have the same columns in the same order."""


class _TooLong(Exception):
    """A value longer than an index can hold."""


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


class Fact(msgspec.Struct, frozen=True, gc=False):
    """One record as the service gave it.

    `version` orders facts before `as_of` does (empty where the service gives no version);
    `digest` is that of the bytes that matter, told from all of `raw` where it is not given.
    """

    key: Key
    raw: bytes
    as_of: datetime
    data: Any
    version: tuple[Any, ...] = ()
    digest: bytes = b""

    @classmethod
    def of(cls, record: Record[Any], *key: Any, version: tuple[Any, ...] = ()) -> Fact:
        return cls(key, record.raw, record.asked_at, record.data, version, record.digest)


@dataclass(frozen=True)
class Children:
    """Rows below a fact. `replace`: a changed fact brings its whole set; else rows only add up."""

    model: type[models.Model]
    parent: str
    key: tuple[str, ...]
    rows: Callable[[Fact], Iterable[Values]]
    replace: bool = True
    vocabularies: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model._meta.db_table


@dataclass(frozen=True)
class Table:
    """How facts of one kind become rows.

    `promote` gives the columns that are read, beside the key. Raising `revision` makes every
    stored hash differ, so that the next full sync promotes again.
    """

    model: type[Mirrored]
    key: tuple[str, ...]
    promote: Callable[[Fact], Values]
    version: tuple[str, ...] = ()
    children: tuple[Children, ...] = ()
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    @property
    def name(self) -> str:
        return self.model._meta.db_table


@dataclass
class Outcome:
    """What a batch did to the mirror."""

    created: list[Fact] = field(default_factory=list)
    changed: list[Fact] = field(default_factory=list)
    unchanged: int = 0
    older: int = 0
    unread: int = 0

    @property
    def touched(self) -> list[Fact]:
        return self.created + self.changed

    def __iadd__(self, other: Outcome) -> Outcome:
        self.created += other.created
        self.changed += other.changed
        self.unchanged += other.unchanged
        self.older += other.older
        self.unread += other.unread
        return self


def apply(
    table: Table, facts: Iterable[Fact], along: Callable[[Fact], None] = lambda fact: None
) -> Outcome:
    """Bring `table` up to date with `facts`, inside the caller's transaction.

    Several facts about one key count as one, the newest. `along` is called with each fact whose
    row is sent, maybe more than once, while PostgreSQL stores the row before it: what it gathers
    for later costs no time.
    """
    newest: dict[Key, Fact] = {}
    for fact in facts:
        key = _in_order(fact.key)
        other = newest.get(key)
        if other is None or (*other.version, other.as_of) <= (*fact.version, fact.as_of):
            newest[key] = fact
    return _isolating(table, [newest[key] for key in sorted(newest)], along)


def flag_missing(table: Table, keys: Sequence[Key], asked_at: datetime) -> int:
    """Note that the service no longer has these records; rows are kept. Returns how many."""
    if not keys:
        return 0
    key = _listed(table.key, table.name)
    with connection.cursor() as cursor:
        cursor.execute(
            f'UPDATE "{table.name}" SET missing_since = %s FROM {_keys_as_rows(table)}'
            f" WHERE {_same_key(table, table.name, 'wanted')}"
            f' AND "{table.name}".missing_since IS NULL AND "{table.name}".as_of < %s'
            f" RETURNING {key}",
            [asked_at, *_columns_of(keys), asked_at],
        )
        flagged = cursor.fetchall()
    Drift.objects.bulk_create(
        Drift(resource=table.name, key=key_text(found), kind=Drift.Kind.MISSING_REMOTE)
        for found in flagged
    )
    return len(flagged)


def key_of(raw: bytes) -> str:
    """The id in a record that could not be read into its type, else a digest of it."""
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        found = None
    for name in ("id", "user_id", "npi", "slug", "payor_code"):
        if isinstance(found, dict) and isinstance(found.get(name), str | int):
            return str(found[name])
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def keep_unread(resource: str, key: str, path: str, reason: str, record: bytes) -> bool:
    """Keep a record that could not be read into columns, whole and visible; False if it is."""
    text = record.decode("utf-8", "replace").replace("\x00", "\ufffd")
    if UnreadRecord.objects.filter(resource=resource, key=key, record=text).exists():
        return False
    UnreadRecord.objects.bulk_create(
        [UnreadRecord(resource=resource, key=key, path=path, reason=reason, record=text)],
        update_conflicts=True,
        unique_fields=["resource", "key"],
        update_fields=["path", "reason", "record", "last_seen"],
    )
    return True


def now_read(resource: str, keys: Iterable[str]) -> None:
    """These records could be read after all."""
    unread = UnreadRecord.objects.filter(resource=resource)
    if unread.exists():
        unread.filter(key__in=list(keys)).delete()


def _isolating(table: Table, facts: list[Fact], along: Callable[[Fact], None]) -> Outcome:
    if not facts:
        return Outcome()
    try:
        with transaction.atomic():
            return _apply_fitting(table, facts, along)
    except UNFIT as error:
        if len(facts) > 1:
            middle = len(facts) // 2
            outcome = _isolating(table, facts[:middle], along)
            outcome += _isolating(table, facts[middle:], along)
            return outcome
        fact = facts[0]
        keep_unread(table.name, key_text(fact.key), "", type(error).__name__, fact.raw)
        return Outcome(unread=1)


def _apply_fitting(table: Table, facts: list[Fact], along: Callable[[Fact], None]) -> Outcome:
    try:
        return _apply(table, facts, along)
    except OperationalError as error:
        # Django files this one with lost connections; it is about a record.
        if isinstance(error.__cause__, psycopg.errors.ProgramLimitExceeded):
            raise _TooLong from error
        raise


def _apply(table: Table, facts: list[Fact], along: Callable[[Fact], None]) -> Outcome:
    outcome = Outcome()
    new: list[tuple[Fact, bytes]] = []
    stale: list[tuple[Fact, bytes]] = []
    with connection.cursor() as cursor:
        known = _known(cursor, table, facts)
        for fact in facts:
            digest = _content_hash(fact, table.revision)
            stored = known.get(fact.key) if known else None
            if stored is None:
                new.append((fact, digest))
            elif stored.digest == digest and not stored.missing:
                outcome.unchanged += 1
            elif stored.missing and fact.as_of <= stored.missing:
                outcome.older += 1  # Asked before the service was found to have it no more.
            elif (*fact.version, fact.as_of) > stored.order:
                stale.append((fact, digest))
            else:
                outcome.older += 1
        strange = _Strange(table.vocabularies)
        below: list[list[Values]] = [[] for _ in table.children]
        if new and _copied(cursor, table, _rows(table, new, along, strange, below)):
            outcome.created = [fact for fact, _ in new]
        else:
            # Another worker inserted one of them since we looked: let the upsert decide.
            strange.met.clear()
            for gathered in below:
                gathered.clear()
            stale += new
        if stale:
            won = _upsert(cursor, table, _rows(table, stale, along, strange))
            outcome.changed = [fact for fact, _ in stale if fact.key in won]
            outcome.older += len(stale) - len(outcome.changed)
        for children, fresh in zip(table.children, below, strict=True):
            _bring_children(cursor, children, outcome.changed, fresh)
        strange.note(cursor)
    if outcome.touched:
        now_read(table.name, (key_text(fact.key) for fact in outcome.touched))
    return outcome


@dataclass(frozen=True, slots=True)
class _Stored:
    digest: bytes
    missing: datetime | None
    order: tuple[Any, ...]


def _known(cursor: CursorWrapper, table: Table, facts: list[Fact]) -> dict[Key, _Stored]:
    width = len(table.key)
    columns = (*table.key, "content_hash", "missing_since", *table.version, "as_of")
    cursor.execute(
        f'SELECT {_listed(columns, table.name)} FROM "{table.name}" JOIN {_keys_as_rows(table)}'
        f" ON {_same_key(table, table.name, 'wanted')}",
        _columns_of([fact.key for fact in facts]),
    )
    return {
        row[:width]: _Stored(bytes(row[width]), row[width + 1], row[width + 2 :])
        for row in cursor.fetchall()
    }


def _content_hash(fact: Fact, revision: int) -> bytes:
    return (fact.digest or digest_of(fact.raw))[:15] + revision.to_bytes(1, "big")


def _in_order(key: Key) -> Key:
    """Sorts like the database, and faster than comparing UUIDs."""
    return tuple([part.int if isinstance(part, UUID) else part for part in key])


def _rows(
    table: Table,
    facts: list[tuple[Fact, bytes]],
    along: Callable[[Fact], None],
    strange: _Strange,
    below: Sequence[list[Values]] = (),
) -> Iterator[Values]:
    """Rows as they are sent; those of children are gathered in `below`, to be sent next.

    PostgreSQL stores a row while the next is made: all that happens here costs no time.
    """
    for fact, digest in facts:
        row = dict(zip(table.key, fact.key, strict=True))
        row.update(table.promote(fact))
        row["record"] = fact.raw.decode()
        row["content_hash"] = digest
        row["as_of"] = fact.as_of
        strange.look_at(row)
        for children, gathered in zip(table.children, below, strict=False):
            gathered += children.rows(fact)
        along(fact)
        yield row


def _copy(
    cursor: CursorWrapper,
    target: str,
    rows: Iterator[Values],
) -> tuple[str, ...]:
    """Send rows by COPY; returns their columns, none where there was no row."""
    first = next(rows, None)
    if first is None:
        return ()
    with (
        connection.wrap_database_errors,
        cursor.copy(f'COPY "{target}" ({_listed(first)}) FROM STDIN') as copy,
    ):
        for row in chain([first], rows):
            copy.write_row(tuple(row.values()))
    return tuple(first)


def _copied(cursor: CursorWrapper, table: Table, rows: Iterator[Values]) -> bool:
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
    cursor: CursorWrapper, target: str, rows: Iterator[Values]
) -> tuple[str, tuple[str, ...]]:
    """Send rows to a temporary table like `target`; its name, and the columns sent."""
    stage = f"stage_{target}"
    cursor.execute(
        f'CREATE TEMP TABLE IF NOT EXISTS "{stage}" ON COMMIT DELETE ROWS AS'
        f' SELECT * FROM "{target}" WITH NO DATA'
    )
    cursor.execute(f'DELETE FROM "{stage}"')
    return stage, _copy(cursor, stage, rows)


def _upsert(cursor: CursorWrapper, table: Table, rows: Iterator[Values]) -> set[Key]:
    """Write staged rows where they are newer; returns the keys that were."""
    stage, columns = _stage(cursor, table.name, rows)
    updates = ", ".join(
        f'"{column}" = EXCLUDED."{column}"' for column in columns if column not in table.key
    )
    order = (*table.version, "as_of")
    cursor.execute(
        f'INSERT INTO "{table.name}" ({_listed(columns)})'
        f' SELECT {_listed(columns)} FROM "{stage}" ORDER BY {_listed(table.key)}'
        f" ON CONFLICT ({_listed(table.key)}) DO UPDATE SET {updates}, missing_since = NULL"
        f" WHERE ({_listed(order, 'excluded')}) > ({_listed(order, table.name)})"
        f' AND ("{table.name}".missing_since IS NULL'
        f' OR excluded.as_of > "{table.name}".missing_since)'
        f" RETURNING {_listed(table.key, table.name)}"
    )
    return set(cursor.fetchall())


def _bring_children(
    cursor: CursorWrapper, children: Children, changed: list[Fact], fresh: list[Values]
) -> None:
    later = _child_rows(children, changed)
    strange = _Strange(children.vocabularies)
    for row in chain(fresh, later):
        strange.look_at(row)
    strange.note(cursor)
    if changed and children.replace:
        cursor.execute(
            f'DELETE FROM "{children.name}" WHERE "{children.parent}" = ANY(%s)',
            [[fact.key[0] for fact in changed]],
        )
        fresh, later = fresh + later, []
    _copy(cursor, children.name, iter(fresh))
    if later:
        _add_children(cursor, children, later)


def _child_rows(children: Children, facts: list[Fact]) -> list[Values]:
    return [row for fact in facts for row in children.rows(fact)]


def _add_children(cursor: CursorWrapper, children: Children, rows: list[Values]) -> None:
    stage, columns = _stage(cursor, children.name, iter(rows))
    values = [column for column in columns if column not in children.key]
    cursor.execute(
        f'SELECT {_listed(children.key, "old")} FROM "{stage}" AS fresh'
        f' JOIN "{children.name}" AS old USING ({_listed(children.key)})'
        f" WHERE ({_listed(values, 'fresh')}) IS DISTINCT FROM ({_listed(values, 'old')})"
    )
    Drift.objects.bulk_create(
        Drift(resource=children.name, key=key_text(key), kind=Drift.Kind.HISTORY_CONFLICT)
        for key in cursor.fetchall()
    )
    cursor.execute(
        f'INSERT INTO "{children.name}" ({_listed(columns)})'
        f' SELECT {_listed(columns)} FROM "{stage}" ORDER BY {_listed(children.key)}'
        " ON CONFLICT DO NOTHING"
    )


class _Strange:
    """Values that no vocabulary knows, counted; the first column tells where one was met."""

    def __init__(self, words_of: Mapping[str, str]) -> None:
        self.watched = [
            (column, words, vocabulary.VOCABULARIES[words]) for column, words in words_of.items()
        ]
        self.met: dict[tuple[str, str], tuple[int, str]] = {}

    def look_at(self, row: Values) -> None:
        for column, words, known in self.watched:
            value = row[column]
            if value and value not in known:
                count, sample = self.met.get((words, value), (0, str(next(iter(row.values())))))
                self.met[words, value] = count + 1, sample

    def note(self, cursor: CursorWrapper) -> None:
        for (words, value), (count, sample) in sorted(self.met.items()):
            cursor.execute(
                "INSERT INTO backoffice_unknownvalue (vocabulary, value, bucket, sightings,"
                " sample_key) VALUES (%s, %s, '', %s, %s)"
                " ON CONFLICT (vocabulary, value) DO UPDATE SET"
                " sightings = backoffice_unknownvalue.sightings + EXCLUDED.sightings,"
                " last_seen = now() RETURNING sightings",
                [words, value, count, sample],
            )
            if cursor.fetchone() == (count,):
                logger.warning("unknown value", extra={"vocabulary": words})


def _keys_as_rows(table: Table) -> str:
    """`unnest` of one array per key column, named `wanted`."""
    arrays = []
    for column in table.key:
        model_field = next(f for f in table.model._meta.fields if f.column == column)
        arrays.append(f"%s::{model_field.rel_db_type(connection)}[]")
    return f"unnest({', '.join(arrays)}) AS wanted({_listed(table.key)})"


def key_text(key: Key) -> str:
    """A key as it stands on drift, unread records and pages."""
    return ":".join(map(str, key))


def _columns_of(keys: Sequence[Key]) -> list[Any]:
    return [_array(column) for column in zip(*keys, strict=True)]


def _array(values: tuple[Any, ...]) -> list[Any] | str:
    """An array parameter; UUIDs as the text of an array, which costs a tenth of adapting each."""
    if isinstance(values[0], UUID):
        return "{" + ",".join(value.hex for value in values) + "}"
    return list(values)


def _same_key(table: Table, left: str, right: str) -> str:
    return " AND ".join(f'"{left}"."{column}" = "{right}"."{column}"' for column in table.key)


def _listed(columns: Iterable[str], of: str = "") -> str:
    prefix = f'"{of}".' if of else ""
    return ", ".join(f'{prefix}"{column}"' for column in columns)


__all__ = [
    "Children",
    "Fact",
    "Outcome",
    "Table",
    "apply",
    "flag_missing",
    "keep_unread",
    "key_of",
    "key_text",
    "now_read",
]
