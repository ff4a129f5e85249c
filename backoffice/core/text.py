"""Small text functions that pages, filters and the API share."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext


def join_with_and(words: Sequence[str]) -> str:
    """Return `a, b and c`; empty for an empty sequence."""
    if len(words) < 2:
        return "".join(words)
    first = ", ".join(words[:-1])
    return gettext("%(first)s and %(last)s") % {"first": first, "last": words[-1]}


def is_storable(text: str) -> bool:
    """Return False for text that PostgreSQL rejects: NUL and halves of surrogate pairs."""
    return not any(mark == "\x00" or "\ud800" <= mark <= "\udfff" for mark in text)
