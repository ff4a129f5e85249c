"""What goes through the door: facts, and the tables they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
from django.db import models

from backoffice.core.encryption.encrypted_fields import SealedField, fields_of
from backoffice.models import Mirrored
from backoffice.service import DroppedField, Record

RecordKey: TypeAlias = tuple[Any, ...]

RowValues: TypeAlias = dict[str, Any]
"""A row by column; all rows of a kind have the same columns in the same order."""


class MirrorRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as the service gave it.

    `version` orders facts before `as_of` does (empty where the service gives no version);
    `digest` is that of the bytes that matter, told from all of `raw` where it is not given;
    `dropped` is what of the record did not fit its type and is not in `data`.
    """

    key: RecordKey
    raw: bytes
    as_of: datetime
    data: Any
    version: tuple[Any, ...] = ()
    digest: bytes = b""
    dropped: tuple[DroppedField, ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        return (*self.version, self.as_of)

    @classmethod
    def from_service(
        cls, record: Record[Any], *key: Any, version: tuple[Any, ...] = ()
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
    """Rows below a fact. `replace`: a changed fact brings its whole set; else rows only add up."""

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
    def moments(self) -> tuple[str, ...]:
        return _moments(self.model)


@dataclass(frozen=True)
class MirrorTable:
    """How facts of one kind become rows.

    `promote` gives the columns that are read, beside the key. Raising `revision` makes every
    stored hash differ, so that the next full sync promotes again. Results are promoted again from
    their stored records, without a sync (`orders.results.ranking.follow_release`).

    `ahead`: how far a version that begins with a moment may lie in the future. One beyond it would
    hide every change until then, so it decides nothing: the record that was asked for later wins.
    """

    model: type[Mirrored]
    key: tuple[str, ...]
    promote: Callable[[MirrorRecord], RowValues]
    version: tuple[str, ...] = ()
    ahead: timedelta | None = None
    children: tuple[ChildTable, ...] = ()
    vocabularies: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @cached_property
    def moments(self) -> tuple[str, ...]:
        """Columns of moments that the service gave, not we."""
        ours = {field.column for field in Mirrored._meta.fields}
        return tuple(column for column in _moments(self.model) if column not in ours)

    @cached_property
    def sealed(self) -> list[SealedField]:
        return fields_of(self.model)

    def latest(self) -> datetime | None:
        """Versions that lie after this moment decide nothing."""
        return None if self.ahead is None else datetime.now(UTC) + self.ahead


def _moments(model: type[models.Model]) -> tuple[str, ...]:
    fields = model._meta.fields
    return tuple(str(field.column) for field in fields if isinstance(field, models.DateTimeField))


@dataclass
class ApplyOutcome:
    """What a batch did to the mirror."""

    created: list[MirrorRecord] = field(default_factory=list)
    changed: list[MirrorRecord] = field(default_factory=list)
    unchanged: int = 0
    older: int = 0
    unread: int = 0
    unread_keys: list[str] = field(default_factory=list)
    """Of the `unread` ones, so that they can be asked for again."""

    @property
    def touched(self) -> list[MirrorRecord]:
        return self.created + self.changed

    def __iadd__(self, other: ApplyOutcome) -> ApplyOutcome:
        self.created += other.created
        self.changed += other.changed
        self.unchanged += other.unchanged
        self.older += other.older
        self.unread += other.unread
        self.unread_keys += other.unread_keys
        return self


def key_text(key: RecordKey) -> str:
    """A key as it stands on drift, unread records and pages."""
    return ":".join(map(str, key))
