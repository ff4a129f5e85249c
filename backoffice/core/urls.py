"""Addresses of pages and records: made once for each route, not for each page and row; and what
stands in them, and in forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse

_ANY_UUID: Final = str(UUID(int=0))
_ANY_NUMBER: Final = "9876543210"
"""These stand where a key will."""


@lru_cache(maxsize=256)
def page_url(route: str) -> str:
    """The address of a route that takes nothing."""
    return reverse(route)


def record_url(route: str, key: UUID | int) -> str:
    """The address of a route that takes one key."""
    any_key = _ANY_NUMBER if isinstance(key, int) else _ANY_UUID
    return _address(route, any_key).replace(any_key, str(key))


@lru_cache(maxsize=128)
def _address(route: str, any_key: str) -> str:
    return reverse(route, args=[any_key])


def build_query(values: Mapping[str, Iterable[str]]) -> QueryDict:
    """Values by the names of fields, as a form or an address carries them."""
    data = QueryDict(mutable=True)
    for name, given in values.items():
        data.setlist(name, list(given))
    return data


def parse_uuid(text: str) -> UUID | None:
    """The id that somebody wrote; None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
