"""Addresses of pages and records, cached by route, and parsing of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse

_ANY_UUID: Final = str(UUID(int=0))
_ANY_NUMBER: Final = "9876543210"
"""Placeholders that a cached address has in the place of the key."""


@lru_cache(maxsize=256)
def page_url(route: str) -> str:
    """Return the address of a route without arguments."""
    return reverse(route)


def record_url(route: str, key: UUID | int) -> str:
    """Return the address of a route that takes one key."""
    any_key = _ANY_NUMBER if isinstance(key, int) else _ANY_UUID
    return _address(route, any_key).replace(any_key, str(key))


@lru_cache(maxsize=128)
def _address(route: str, any_key: str) -> str:
    return reverse(route, args=[any_key])


def build_query(values: Mapping[str, Iterable[str]]) -> QueryDict:
    """Return values by field name as the QueryDict of a form or an address."""
    data = QueryDict(mutable=True)
    for name, texts in values.items():
        data.setlist(name, list(texts))
    return data


def parse_uuid(text: str) -> UUID | None:
    """Return the UUID in a text; None when it is not one."""
    try:
        return UUID(text)
    except ValueError:
        return None
