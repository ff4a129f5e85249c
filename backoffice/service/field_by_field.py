"""Read a record field by field and drop the optional fields that do not fit their type.

This is the slow path: a correct record is decoded in one pass. Small differences are repaired first
(a time without a zone is UTC, a number sent as text, null in place of a value). A value that still
does not fit is dropped, at every depth: a field of a record, an item of a list, a member of a map.
A required field that does not fit drops only the object that contains it.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import inspect as typed

T = TypeVar("T")

AS_TEXT: Final = "as_text"
"""Mark of a text field that accepts any other value as text, see `payload.Word`."""
LONGEST_WORD: Final = 200
NULL: Final = msgspec.Raw(b"null")

_ABSENT: Final = msgspec.Raw(b"")
_LARGEST: Final = 2**63
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d+", re.ASCII)

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.encode

_LEAVES: Final[dict[type[typed.Type], Callable[[bytes], object]]] = {
    typed.AnyType: msgspec.json.Decoder().decode,
    typed.StrType: _text,
    typed.IntType: msgspec.json.Decoder(int).decode,
    typed.FloatType: msgspec.json.Decoder(float).decode,
    typed.BoolType: msgspec.json.Decoder(bool).decode,
    typed.DateTimeType: msgspec.json.Decoder(datetime).decode,
    typed.DateType: msgspec.json.Decoder(date).decode,
    typed.UUIDType: msgspec.json.Decoder(UUID).decode,
}
"""Decoders of single values, by type."""


@dataclass(frozen=True, slots=True)
class DroppedField:
    """A part of a record that did not fit and was dropped.

    `path` is such as ``$.results[3].value`` (positions as received). `reason` describes types and
    never contains a value.
    """

    path: str
    reason: str


class Misfit(ValueError):
    """A value does not fit and cannot be dropped by itself."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


def fit(raw: bytes, kind: object) -> tuple[bytes, tuple[DroppedField, ...]]:
    """Return the record as `kind` expects it, and the parts that were dropped.

    Values that fit keep their bytes. Raises Misfit when a required value does not fit, or when
    nothing fits.
    """
    dropped: list[DroppedField] = []
    fitted = _fit(msgspec.Raw(raw), _shape(kind), "$", dropped)
    if dropped and bytes(fitted) in (b"{}", b"[]"):
        raise Misfit(dropped[0].path, dropped[0].reason)
    return (raw if fitted is _ABSENT else bytes(fitted)), tuple(dropped)


@functools.cache
def _shape(kind: object) -> typed.Type:
    return typed.type_info(kind)


def _fit(
    raw: msgspec.Raw, shape: typed.Type, path: str, dropped: list[DroppedField]
) -> msgspec.Raw:
    if isinstance(shape, typed.Metadata):
        if AS_TEXT in (shape.extra_json_schema or {}):
            raw = _as_text(raw)
        return _fit(raw, shape.type, path, dropped)
    sent = bytes(raw).strip()
    if isinstance(shape, typed.UnionType):
        return _fit_union(raw, sent, shape, path, dropped)
    if sent == b"null":
        return raw if isinstance(shape, (typed.AnyType, typed.RawType)) else _ABSENT
    first = sent[:1]
    if isinstance(shape, typed.StructType) and first == b"{":
        return _fit_struct(sent, shape, path, dropped)
    if isinstance(shape, typed.ListType) and first == b"[":
        return _fit_list(sent, shape, path, dropped)
    if isinstance(shape, typed.DictType) and first == b"{":
        return _fit_dict(sent, shape, path, dropped)
    if isinstance(shape, typed.RawType):
        return raw
    return _fit_leaf(raw, sent, shape, path)


def _fit_struct(
    sent: bytes, shape: typed.StructType, path: str, dropped: list[DroppedField]
) -> msgspec.Raw:
    values = _decode(_object, sent, path)
    wrapper = getattr(shape.cls, "wrapped_in", None)
    if wrapper and wrapper in values and bytes(values[wrapper]).strip()[:1] == b"{":
        values = _decode(_object, bytes(values[wrapper]), path)
    result: dict[str, msgspec.Raw] = {}
    for field in shape.fields:
        name = field.encode_name
        fitted, value = _ABSENT, values.get(name)
        if value is not None:
            try:
                fitted = _fit(value, field.type, f"{path}.{name}", dropped)
            except Misfit as misfit:
                if field.required:
                    raise
                dropped.append(DroppedField(misfit.path, misfit.reason))
        if fitted is not _ABSENT:
            result[name] = fitted
        elif field.required:
            raise Misfit(path, f"Object missing required field `{name}`")
    return msgspec.Raw(_encode(result))


def _fit_list(
    sent: bytes, shape: typed.ListType, path: str, dropped: list[DroppedField]
) -> msgspec.Raw:
    result: list[msgspec.Raw] = []
    for place, item in enumerate(_decode(_array, sent, path)):
        before = len(dropped)
        try:
            fitted = _fit(item, shape.item_type, f"{path}[{place}]", dropped)
            if fitted is _ABSENT:
                raise Misfit(f"{path}[{place}]", "Expected a value, got `null`")
        except Misfit as misfit:
            inside = misfit.path.removeprefix(f"{path}[{place}]")
            reason = f"{misfit.reason} at `{inside[1:]}`" if inside else misfit.reason
            dropped[before:] = [DroppedField(f"{path}[{place}]", reason)]
        else:
            result.append(fitted)
    return msgspec.Raw(_encode(result))


def _fit_dict(
    sent: bytes, shape: typed.DictType, path: str, dropped: list[DroppedField]
) -> msgspec.Raw:
    result: dict[str, msgspec.Raw] = {}
    for name, value in _decode(_object, sent, path).items():
        try:
            # Keys may be personal data, so the path does not contain them.
            fitted = _fit(value, shape.value_type, f"{path}[...]", dropped)
        except Misfit as misfit:
            dropped.append(DroppedField(misfit.path, misfit.reason))
        else:
            if fitted is not _ABSENT:
                result[name] = fitted
    return msgspec.Raw(_encode(result))


def _fit_union(
    raw: msgspec.Raw,
    sent: bytes,
    shape: typed.UnionType,
    path: str,
    dropped: list[DroppedField],
) -> msgspec.Raw:
    if sent == b"null":
        return raw if shape.includes_none else _ABSENT
    inner = [kind for kind in shape.types if not isinstance(kind, typed.NoneType)]
    textual = any(isinstance(_without_metadata(kind), typed.StrType) for kind in inner)
    if shape.includes_none and not textual and sent == b'""':
        return NULL
    first: Misfit | None = None
    for kind in sorted(inner, key=lambda kind: not _looks_like(sent, _without_metadata(kind))):
        before = len(dropped)
        try:
            return _fit(raw, kind, path, dropped)
        except Misfit as misfit:
            del dropped[before:]
            # The error inside an object that nearly fits explains more than "Expected text".
            first = first or misfit
    assert first is not None
    raise first


def _without_metadata(shape: typed.Type) -> typed.Type:
    return _without_metadata(shape.type) if isinstance(shape, typed.Metadata) else shape


def _as_text(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a value as text.

    A list of words becomes `H, A`. Text and null do not change. Any other value becomes its JSON
    source.
    """
    sent = bytes(raw).strip()
    if sent == b"null" or sent[:1] == b'"':
        return raw
    try:
        items = msgspec.json.decode(sent)
    except (ValueError, RecursionError):
        return raw
    is_words = isinstance(items, list) and items and all(isinstance(i, str) for i in items)
    text = ", ".join(items) if is_words else sent.decode("utf-8", "replace")
    return msgspec.Raw(_encode(text[:LONGEST_WORD]))


def _looks_like(sent: bytes, shape: typed.Type) -> bool:
    """Return whether a value looks like a type of a union, before any repair."""
    first = sent[:1]
    if first == b"{":
        return isinstance(shape, (typed.StructType, typed.DictType))
    if first == b"[":
        return isinstance(shape, typed.ListType)
    if first == b'"':
        return isinstance(
            shape, (typed.StrType, typed.DateTimeType, typed.DateType, typed.UUIDType)
        )
    if first in b"tf":
        return isinstance(shape, typed.BoolType)
    return isinstance(shape, (typed.IntType, typed.FloatType))


def _fit_leaf(raw: msgspec.Raw, sent: bytes, shape: typed.Type, path: str) -> msgspec.Raw:
    if sent[:1] == b'"':
        raw = _repair_text(raw, _decode(_text, sent, path), shape)
    elif isinstance(shape, typed.StrType) and (sent[:1].isdigit() or sent[:1] == b"-"):
        raw = msgspec.Raw(b'"' + sent + b'"')
    read = _LEAVES.get(type(shape))
    if read is None:
        got = {b"{": "object", b"[": "array", b'"': "str"}.get(sent[:1], "another value")
        kind = type(shape).__name__.removesuffix("Type").lower()
        kind = {"struct": "object", "dict": "object", "list": "array"}.get(kind, kind)
        raise Misfit(path, f"Expected `{kind}`, got `{got}`")
    value = _decode(read, bytes(raw), path)
    if isinstance(value, float) and not math.isfinite(value):
        raise Misfit(path, "Number out of range")
    if (
        isinstance(shape, typed.IntType)
        and isinstance(value, int)
        and not -_LARGEST <= value < _LARGEST
    ):
        raise Misfit(path, "Integer out of range")
    return raw


def _decode(read: Callable[[bytes], T], sent: bytes, path: str) -> T:
    try:
        return read(sent)
    except msgspec.DecodeError as error:
        reason, _, inside = str(error).partition(" - at `")
        raise Misfit(path + inside.rstrip("`")[1:], reason) from None
    except (ValueError, RecursionError):
        raise Misfit(path, "Invalid text encoding or nesting") from None


def _repair_text(raw: msgspec.Raw, text: str, shape: typed.Type) -> msgspec.Raw:
    word = text.strip()
    try:
        if isinstance(shape, typed.DateTimeType):
            moment = datetime.fromisoformat(word)
            if moment.tzinfo is None and shape.tz:
                moment = moment.replace(tzinfo=UTC)
            return msgspec.Raw(_encode(moment))
        if isinstance(shape, typed.DateType):
            return msgspec.Raw(_encode(date.fromisoformat(word[:10])))
        if isinstance(shape, typed.IntType) and _WHOLE.fullmatch(word):
            return msgspec.Raw(_encode(int(word)))
        if isinstance(shape, typed.FloatType) and _NUMBER.fullmatch(word):
            number = float(word)
            return msgspec.Raw(_encode(number)) if math.isfinite(number) else raw
        if isinstance(shape, typed.BoolType) and word.lower() in ("true", "false"):
            return msgspec.Raw(word.lower().encode())
    except (ValueError, OverflowError):
        pass
    return raw
