"""Records as received: typed for reading, byte for byte for storage.

Every record of the service is a :class:`Payload`. Reading is lenient, as differences.md requires:
unknown fields are ignored, and enumerations are plain text. A correct record is decoded in one pass
of a compiled decoder. A record that this pass rejects is read again, slowly, with small repairs (a
time without a zone is UTC, a number sent as text, null in place of a value). Values that still do
not fit are dropped (`field_by_field.py`). A record that lacks a required value becomes
:class:`Unreadable`. Reading a record never raises an exception.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Generic, TypeVar

import msgspec

from backoffice.service import json_text
from backoffice.service.field_by_field import AS_TEXT, DroppedField, Misfit, fit

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time, always with a zone; a time received without one is UTC."""

Word = Annotated[str, msgspec.Meta(extra_json_schema={AS_TEXT: True})]
"""A value of an open enumeration.

A list, an object, or a flag in its place is read as its JSON text, so that it can be shown as
received.
"""

NEVER = datetime(1, 1, 1, tzinfo=UTC)
"""``asked_at`` of a value that is read outside any call."""


class Payload(msgspec.Struct, gc=False):
    """Base class of every record.

    A required field that was not sent is empty (``""``, ``[]``), and an optional one is None. Only
    the record as received shows the difference.
    """

    @property
    def volatile(self) -> Sequence[bytes]:
        """Return slices of the raw record that differ on every read, such as signed links."""
        return ()

    def __repr__(self) -> str:
        # Records are personal data, and a repr ends up in logs and tracebacks.
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return []


class RequestBody(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base class of request bodies, with the field names of the interface.

    A field that has its default value is not sent. The service, not this class, validates the
    values.
    """

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return []


@dataclass(frozen=True, slots=True, repr=False)
class Record(Generic[T_co]):
    """One record.

    ``data`` is the typed record and ``raw`` the exact bytes received. ``asked_at`` is the time
    (UTC) when our request was sent. ``digest`` is the digest of the bytes that matter (see
    :func:`digest_of`). ``dropped`` lists the parts that did not fit and are not in ``data``.
    """

    data: T_co
    raw: bytes
    asked_at: datetime
    digest: bytes
    dropped: tuple[DroppedField, ...] = ()

    def __repr__(self) -> str:
        return f"<Record of {type(self.data).__name__}>"


@dataclass(frozen=True, slots=True, repr=False)
class Unreadable:
    """A record that does not fit its type.

    ``path`` is such as ``$.lab_test.name``. ``reason`` describes types and never contains a value.
    """

    raw: bytes
    path: str
    reason: str
    asked_at: datetime

    def __repr__(self) -> str:
        return f"<Unreadable at {self.path}: {self.reason}>"


@dataclass(frozen=True, slots=True, repr=False)
class RecordPage(Generic[T_co]):
    """One page of a list.

    ``total``, ``page``, ``size`` and ``next_cursor`` are None when the service did not send them.
    ``server_date`` is the time of the service (the Date header).
    """

    records: list[Record[T_co]]
    unreadable: list[Unreadable]
    asked_at: datetime
    total: int | None = None
    page: int | None = None
    size: int | None = None
    offset: int | None = None
    limit: int | None = None
    next_cursor: str | None = None
    server_date: datetime | None = None

    def __repr__(self) -> str:
        return f"<Page of {len(self.records)} records, {len(self.unreadable)} unreadable>"


class Reader(Generic[T_co]):
    """Decoder of one type of record from bytes; create one per type, at import."""

    __slots__ = ("_decode", "_type")

    def __init__(self, kind: type[T_co]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._type = kind

    def read(self, raw: bytes, asked_at: datetime) -> Record[T_co] | Unreadable:
        if not json_text.needs_replacing(raw):
            try:
                return _record(self._decode(raw), raw, asked_at)
            except (ValueError, RecursionError):  # msgspec errors, invalid UTF-8.
                pass
        try:
            return self._read_slowly(raw, asked_at)
        except Misfit as misfit:
            return Unreadable(raw, misfit.path, misfit.reason, asked_at)
        except (ValueError, RecursionError) as error:
            path, reason = explain(error)
            return Unreadable(raw, path, reason, asked_at)

    def _read_slowly(self, raw: bytes, asked_at: datetime) -> Record[T_co]:
        """Read a record with unstorable text replaced, else field by field."""
        storable = json_text.replace_unstorable(raw)
        try:
            return _record(self._decode(storable), raw, asked_at)
        except (ValueError, RecursionError):
            pass
        fitted, dropped = fit(json_text.make_decodable(raw), self._type)
        return _record(self._decode(fitted), raw, asked_at, dropped)

    def value(self, raw: bytes) -> T_co:
        """Return the typed value; raises a ValueError whose message contains no values."""
        record = self.read(raw, NEVER)
        if isinstance(record, Record):
            return record.data
        raise ValueError(f"{record.reason} at {record.path}")

    def page(
        self, items: Iterable[msgspec.Raw], asked_at: datetime
    ) -> tuple[list[Record[T_co]], list[Unreadable]]:
        records: list[Record[T_co]] = []
        unreadable: list[Unreadable] = []
        for item in items:
            record = self.read(bytes(item), asked_at)
            if isinstance(record, Record):
                records.append(record)
            else:
                unreadable.append(record)
        return records, unreadable


def _record(
    data: T, raw: bytes, asked_at: datetime, dropped: tuple[DroppedField, ...] = ()
) -> Record[T]:
    return Record(data, raw, asked_at, digest_of(raw, getattr(data, "volatile", ())), dropped)


def digest_of(raw: bytes, volatile: Iterable[bytes] = ()) -> bytes:
    """Return 16 bytes that are equal for records that differ only in `volatile` slices."""
    for part in volatile:
        raw = raw.replace(part, b"")
    return hashlib.sha256(raw).digest()[:16]


def explain(error: Exception) -> tuple[str, str]:
    """Return the path and reason of a decoding error, without any value."""
    if not isinstance(error, msgspec.DecodeError):
        return "$", "Invalid text encoding or nesting"
    text, _, path = str(error).partition(" - at `")
    return path.rstrip("`") or "$", text


def parse_day(text: str | None) -> date | None:
    """Return the date part of a date or date-time; None without one (differences.md 16)."""
    if not text:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


def either(sent: T | None, other: T | None) -> T | None:
    """Return the first of two spellings of a field, or the other when only that has a value."""
    return sent if sent or not other else other


def as_text(value: str | float | None) -> str | None:
    """Return a value that is sent as text or as a number, as text."""
    return value if value is None or isinstance(value, str) else str(value)
