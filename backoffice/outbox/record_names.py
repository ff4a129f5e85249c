"""Add names of records beside their ids in messages of the service.

The apps that mirror records register functions that find and name ids, because this package knows
none of their tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from django.db import DatabaseError

logger = logging.getLogger(__name__)

RecordNamer = Callable[[Sequence[str]], list[str]]
"""Returns the same texts, in the same order, with a name beside each id that it knows."""

_namers: list[RecordNamer] = []


def register(namer: RecordNamer) -> None:
    """Add a namer, once."""
    if namer not in _namers:
        _namers.append(namer)


def with_names(texts: Sequence[str]) -> list[str]:
    """Return the texts with names beside the ids of mirrored records.

    Return them unchanged if the names cannot be read now.
    """
    named = list(texts)
    for namer in _namers:
        try:
            named = namer(named)
        except DatabaseError:
            logger.warning("names of records could not be read", exc_info=True)
    return named
