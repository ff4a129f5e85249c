"""Small things about text that pages, filters and the API share."""

from __future__ import annotations

from collections.abc import Sequence


def join_with_and(words: Sequence[str]) -> str:
    """`a, b and c`; empty for none."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def is_storable(text: str) -> bool:
    """False for what PostgreSQL takes in no text: NUL and halves of surrogate pairs."""
    return not any(mark == "\x00" or "\ud800" <= mark <= "\udfff" for mark in text)
