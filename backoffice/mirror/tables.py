"""Records of the service, and how they become rows of mirrored tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
from django.db import models

from backoffice.core.encryption.encrypted_fields import EncryptedField, encrypted_fields_of
from backoffice.mirror.models import MirrorModel
from backoffice.service import DroppedField, Record

RecordKey: TypeAlias = tuple[Any, ...]
"""Values of the key columns: ids, and text such as the slug of a provider."""

SortKey: TypeAlias = tuple[Any, ...]
"""Values of the version columns, then the time of the request; compared as a whole."""

RowValues: TypeAlias = dict[str, Any]
"""Values of a row by column; all rows of a table have the same columns in the same order."""


class MirrorRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as the service sent it.

    Records are ordered by `version` (empty if the service gives none), then by `as_of`. `digest`
    is the digest of the relevant bytes, computed from all of `raw` if empty. `dropped` lists the
    parts of the record that did not fit its type and are not in `data`.
    """

    key: RecordKey
    raw: bytes
    as_of: datetime
    data: Any
    version: tuple[Any, ...] = ()
    digest: bytes = b""
    dropped: tuple[DroppedField, ...] = ()

    @property
    def sort_key(self) -> SortKey:
        return (*self.version, self.as_of)

    @classmethod
    def from_service(
        cls, record: Record[object], *key: object, version: tuple[Any, ...] = ()
    ) -> MirrorRecord:
        return cls(
            key,
            record.raw,
            record.asked_at,
            record.data,
            version,
            record.digest,
            record.dropped,
        )


@dataclass(frozen=True)
class ChildTable:
    """Child rows of a record. `replace`: a changed record replaces them all; else it adds rows."""

    model: type[models.Model]
    parent: str
    key: tuple[str, ...]
    rows: Callable[[MirrorRecord], Iterable[RowValues]]
    replace: bool = True
    vocabularies: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @cached_property
    def datetime_columns(self) -> tuple[str, ...]:
        return _datetime_columns(self.model)


@dataclass(frozen=True)
class MirrorTable:
    """How records of one type become rows.

    `promote` returns the promoted columns, without the key. Incrementing `revision` makes every
    stored hash differ, so that the next full sync promotes again. Results are promoted again from
    their stored records, without a sync (`orders.results.rereading.reread_open_results`).

    `max_ahead`: how far a version that begins with a time may lie in the future. A later one would
    hide every change until then, so it is ignored: the record that was requested later wins.
    """

    model: type[MirrorModel]
    key: tuple[str, ...]
    promote: Callable[[MirrorRecord], RowValues]
    version: tuple[str, ...] = ()
    max_ahead: timedelta | None = None
    children: tuple[ChildTable, ...] = ()
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @cached_property
    def datetime_columns(self) -> tuple[str, ...]:
        """Date and time columns with values of the service, without those of the back office."""
        own = {field.column for field in MirrorModel._meta.fields}
        return tuple(column for column in _datetime_columns(self.model) if column not in own)

    @cached_property
    def encrypted_columns(self) -> list[EncryptedField]:
        return encrypted_fields_of(self.model)

    def max_plausible_version(self) -> datetime | None:
        """Return the time after which versions are ignored; None if there is no limit."""
        return None if self.max_ahead is None else datetime.now(UTC) + self.max_ahead


def _datetime_columns(model: type[models.Model]) -> tuple[str, ...]:
    fields = model._meta.fields
    return tuple(str(field.column) for field in fields if isinstance(field, models.DateTimeField))


@dataclass
class ApplyOutcome:
    """What a batch did to the mirror."""

    created: list[MirrorRecord] = field(default_factory=list)
    changed: list[MirrorRecord] = field(default_factory=list)
    unchanged: int = 0
    older: int = 0
    unreadable: int = 0
    unreadable_keys: list[str] = field(default_factory=list)
    """Keys of the unreadable records, so that they can be requested again."""

    @property
    def touched(self) -> list[MirrorRecord]:
        return self.created + self.changed

    def __iadd__(self, other: ApplyOutcome) -> ApplyOutcome:
        self.created += other.created
        self.changed += other.changed
        self.unchanged += other.unchanged
        self.older += other.older
        self.unreadable += other.unreadable
        self.unreadable_keys += other.unreadable_keys
        return self


def key_text(key: RecordKey) -> str:
    """Return a key as text, for drift, unreadable records and pages."""
    return ":".join(map(str, key))
