"""Addresses of pages and records: made once for each route, not for each page and row."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from uuid import UUID

from django.urls import reverse

_ANY: Final[dict[type, str]] = {UUID: str(UUID(int=0)), int: "9876543210"}
"""Stands where a key will."""


@lru_cache(maxsize=256)
def page_url(route: str) -> str:
    """The address of a route that takes nothing."""
    return reverse(route)


def record_url(route: str, key: UUID | int) -> str:
    """The address of a route that takes one key."""
    kind = type(key)
    return _address(route, kind).replace(_ANY[kind], str(key))


@lru_cache(maxsize=128)
def _address(route: str, kind: type) -> str:
    return reverse(route, args=[_ANY[kind]])
