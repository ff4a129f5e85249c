"""The envelope of a list answer: its records and what the service says about its pages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from backoffice.service import json_text
from backoffice.service.field_by_field import NULL


class ListEnvelope(msgspec.Struct, kw_only=True, gc=False):
    """The parts of a list answer other than its records; each may be missing or null."""

    items: list[msgspec.Raw] = []
    total: msgspec.Raw = NULL
    page: msgspec.Raw = NULL
    size: msgspec.Raw = NULL
    offset: msgspec.Raw = NULL
    limit: msgspec.Raw = NULL
    next_cursor: msgspec.Raw = NULL


@functools.cache
def _envelope(key: str | None) -> Callable[[bytes], ListEnvelope]:
    """Return a decoder for a list under ``key``, or for a bare array."""
    if key is None:
        array = msgspec.json.Decoder(list[msgspec.Raw]).decode
        return lambda body: ListEnvelope(items=array(body))
    items = ("items", list[msgspec.Raw], msgspec.field(name=key))
    kind: Any = msgspec.defstruct(
        "ListEnvelope", [items], bases=(ListEnvelope,), kw_only=True, gc=False
    )
    decode: Callable[[bytes], ListEnvelope] = msgspec.json.Decoder(kind).decode
    return decode


def parse_list(body: bytes, key: str | None) -> ListEnvelope | None:
    """Return the list in a body, or None when there is none.

    When the body cannot be decoded as it is, invalid characters and numbers are replaced first: one
    of them must not make the whole page unreadable.
    """
    decode = _envelope(key)
    with suppress(ValueError, RecursionError):
        return decode(body)
    with suppress(ValueError, RecursionError):
        return decode(json_text.make_decodable(body))
    return None
