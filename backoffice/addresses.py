"""Addresses of pages and records: made once for each route, not for each page and row."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from uuid import UUID

from django.urls import reverse

_ANY: Final = str(UUID(int=0))
_ANY_NUMBER: Final = "9876543210"
"""These stand where a key will."""


@lru_cache(maxsize=256)
def page_url(route: str) -> str:
    """The address of a route that takes nothing."""
    return reverse(route)


def record_url(route: str, key: UUID | int) -> str:
    """The address of a route that takes one key."""
    any_key = _ANY_NUMBER if isinstance(key, int) else _ANY
    return _address(route, any_key).replace(any_key, str(key))


@lru_cache(maxsize=128)
def _address(route: str, any_key: str) -> str:
    return reverse(route, args=[any_key])
