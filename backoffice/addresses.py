"""Addresses of pages and records: made once for each route, not for each page and row."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from uuid import UUID

from django.urls import reverse

_ANY: Final = str(UUID(int=0))


@lru_cache(maxsize=256)
def page_url(route: str) -> str:
    """The address of a route that takes nothing."""
    return reverse(route)


def record_url(route: str, key: UUID) -> str:
    """The address of a route that takes one UUID."""
    return _address(route).replace(_ANY, str(key))


@lru_cache(maxsize=64)
def _address(route: str) -> str:
    return reverse(route, args=[_ANY])
