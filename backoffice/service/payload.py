"""Records as received: typed for reading, byte for byte for keeping.

Every record of the service is a :class:`Payload`. Reading is lenient as differences.md asks:
unknown fields are ignored, enumerations are plain text, and the ordinary case is one pass of a
compiled decoder. Only a record that this pass refuses is read again, slowly, with the small
repairs of :func:`_repaired` (a time without zone is UTC, a number sent as text, null where a value
was promised). What then still does not fit becomes :class:`Unreadable`, never an exception.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import inspect as typed

T = TypeVar("T")

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment, always with a zone; one received without is UTC."""

NULL = msgspec.Raw(b"null")
NEVER = datetime(1, 1, 1, tzinfo=UTC)
"""``asked_at`` of a value read on its own, outside any call."""


class Payload(msgspec.Struct, gc=False):
    """Base of every record. A field the interface requires but did not come reads as empty
    (``""``, ``[]``), an optional one as None; the record as received tells the difference."""

    @property
    def volatile(self) -> Sequence[bytes]:
        """Slices of the record as received that differ on every read, such as signed links."""
        return ()

    def __repr__(self) -> str:
        # Records are personal data: a repr ends up in logs and tracebacks.
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class Body(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Base of what is sent, in the interface's own spelling. What is left at its default is not
    sent. Whether it makes sense is for the service to say."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


@dataclass(frozen=True, slots=True, repr=False)
class Record(Generic[T]):
    """One record: ``data`` typed, ``raw`` exactly the bytes received, ``asked_at`` the moment (UTC)
    our request was sent, ``digest`` that of the bytes that matter (see :func:`digest_of`)."""

    data: T
    raw: bytes
    asked_at: datetime
    digest: bytes

    def __repr__(self) -> str:
        return f"<Record of {type(self.data).__name__}>"


@dataclass(frozen=True, slots=True, repr=False)
class Unreadable:
    """A record that does not fit its type: ``path`` as in ``$.lab_test.name``, ``reason`` in words
    about types, never a value."""

    raw: bytes
    path: str
    reason: str
    asked_at: datetime

    def __repr__(self) -> str:
        return f"<Unreadable at {self.path}: {self.reason}>"


@dataclass(frozen=True, slots=True, repr=False)
class Page(Generic[T]):
    """One answer of a list. ``total``, ``page``, ``size`` and ``next_cursor`` are None when the
    service does not say; ``server_date`` is its clock (the Date header)."""

    records: list[Record[T]]
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


class Reader(Generic[T]):
    """Reads one kind of record from its bytes. Made once per type, at import."""

    __slots__ = ("_decode", "_type")

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._type = kind

    def read(self, raw: bytes, asked_at: datetime) -> Record[T] | Unreadable:
        try:
            return _record(self._decode(raw), raw, asked_at)
        except (ValueError, RecursionError):  # both msgspec errors and bad UTF-8 are ValueErrors
            pass
        try:
            return _record(self._decode(repaired(raw, self._type)), raw, asked_at)
        except (ValueError, RecursionError) as error:
            path, reason = explain(error)
            return Unreadable(raw, path, reason, asked_at)

    def value(self, raw: bytes) -> T:
        """The typed value alone; raises ValueError with type words only."""
        record = self.read(raw, NEVER)
        if isinstance(record, Record):
            return record.data
        raise ValueError(f"{record.reason} at {record.path}")

    def page(
        self, items: Iterable[msgspec.Raw], asked_at: datetime
    ) -> tuple[list[Record[T]], list[Unreadable]]:
        records: list[Record[T]] = []
        unreadable: list[Unreadable] = []
        for item in items:
            record = self.read(bytes(item), asked_at)
            if isinstance(record, Record):
                records.append(record)
            else:
                unreadable.append(record)
        return records, unreadable


def _record(data: T, raw: bytes, asked_at: datetime) -> Record[T]:
    return Record(data, raw, asked_at, digest_of(raw, getattr(data, "volatile", ())))


def digest_of(raw: bytes, volatile: Iterable[bytes] = ()) -> bytes:
    """Sixteen bytes that are equal for records that differ in nothing but `volatile` slices."""
    for part in volatile:
        raw = raw.replace(part, b"")
    return hashlib.sha256(raw).digest()[:16]


def explain(error: Exception) -> tuple[str, str]:
    """Path and type words of a decoding error, without any value."""
    if not isinstance(error, msgspec.DecodeError):
        return "$", "Invalid text encoding or nesting"
    text, _, path = str(error).partition(" - at `")
    return path.rstrip("`") or "$", text


def day(text: str | None) -> date | None:
    """The date part of a date or a date-time; None when there is none (differences.md 16)."""
    if not text:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None


def either(sent: T | None, other: T | None) -> T | None:
    """One field under two spellings: the first unless only the other says something."""
    return sent if sent or not other else other


def as_text(value: str | float | None) -> str | None:
    """A value that arrives as text or as a number, as text."""
    return value if value is None or isinstance(value, str) else str(value)


# The slow path: only for records the compiled decoder refused.

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode
_ABSENT = msgspec.Raw(b"")


@functools.cache
def _shape(kind: Any) -> typed.Type:
    return typed.type_info(kind)


def repaired(raw: bytes, kind: Any) -> bytes:
    """The same record in the spelling the types expect. Values that fit stay byte for byte."""
    fixed = _repaired(msgspec.Raw(raw), _shape(kind))
    return raw if fixed is _ABSENT else bytes(fixed)


def _repaired(raw: msgspec.Raw, shape: typed.Type) -> msgspec.Raw:
    if isinstance(shape, typed.Metadata):
        return _repaired(raw, shape.type)
    sent = bytes(raw).strip()
    first = sent[:1]
    if isinstance(shape, typed.UnionType):
        return _repaired_union(raw, first, shape)
    if sent == b"null":
        return raw if isinstance(shape, (typed.AnyType, typed.RawType)) else _ABSENT
    if isinstance(shape, typed.StructType) and first == b"{":
        return _repaired_struct(sent, shape)
    if isinstance(shape, typed.ListType) and first == b"[":
        return _joined([_repaired(item, shape.item_type) for item in _array(sent)])
    if isinstance(shape, typed.DictType) and first == b"{":
        items = {k: _repaired(v, shape.value_type) for k, v in _object(sent).items()}
        return _object_of(items)
    if first == b'"':
        return _repaired_text(raw, _text(sent), shape)
    if isinstance(shape, typed.StrType) and (first.isdigit() or first == b"-"):
        return msgspec.Raw(b'"' + sent + b'"')
    return raw


def _repaired_struct(sent: bytes, shape: typed.StructType) -> msgspec.Raw:
    values = _object(sent)
    wrapper = getattr(shape.cls, "wrapped_in", None)
    if wrapper and wrapper in values and bytes(values[wrapper])[:1] == b"{":
        values = _object(values[wrapper])
    kept: dict[str, msgspec.Raw] = {}
    for field in shape.fields:
        value = values.get(field.encode_name)
        if value is not None:
            kept[field.encode_name] = _repaired(value, field.type)
    return _object_of(kept)


def _repaired_union(raw: msgspec.Raw, first: bytes, shape: typed.UnionType) -> msgspec.Raw:
    wanted: tuple[type[typed.Type], ...]
    if first == b"{":
        wanted = (typed.StructType, typed.DictType)
    elif first == b"[":
        wanted = (typed.ListType,)
    elif first == b"n":
        return raw if shape.includes_none else _ABSENT
    else:
        wanted = ()
    inner = [kind for kind in shape.types if not isinstance(kind, typed.NoneType)]
    fitting = [kind for kind in inner if isinstance(kind, wanted)] if wanted else inner
    textual = any(isinstance(kind, typed.StrType) for kind in inner)
    if shape.includes_none and not textual and bytes(raw).strip() == b'""':
        return NULL
    return _repaired(raw, fitting[0]) if len(fitting) == 1 else raw


def _repaired_text(raw: msgspec.Raw, text: str, shape: typed.Type) -> msgspec.Raw:
    try:
        if isinstance(shape, typed.DateTimeType):
            moment = datetime.fromisoformat(text.strip())
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=UTC)
            return msgspec.Raw(_encode(moment))
        if isinstance(shape, typed.DateType):
            return msgspec.Raw(_encode(date.fromisoformat(text.strip()[:10])))
        if isinstance(shape, typed.IntType):
            return msgspec.Raw(_encode(int(text)))
        if isinstance(shape, typed.FloatType):
            return msgspec.Raw(_encode(float(text)))
        if isinstance(shape, typed.BoolType) and text.lower() in ("true", "false"):
            return msgspec.Raw(text.lower().encode())
    except ValueError:
        pass
    return raw


def _object_of(values: dict[str, msgspec.Raw]) -> msgspec.Raw:
    return msgspec.Raw(_encode({k: v for k, v in values.items() if v is not _ABSENT}))


def _joined(items: list[msgspec.Raw]) -> msgspec.Raw:
    return msgspec.Raw(_encode([NULL if item is _ABSENT else item for item in items]))
