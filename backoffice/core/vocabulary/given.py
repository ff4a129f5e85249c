"""Words that people have given to values which no release knows, kept in memory.

They stand in `UnknownValue`. A page hears with the statement that finds its reader which decision
was the last (`session.Staff`), so it asks nothing more until there is a new one. Workers ask again
after a moment. Both do it before they begin: words are read while rows are sent to PostgreSQL, when
nothing can be asked.
"""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import Final

from django.db import connection

from backoffice.core.vocabulary.families import GLYPHS, NEEDS_ACTION, TURNS, Term

REMEMBERED_SECONDS: Final = 2.0
_AT_ONCE: Final = timedelta(0)
_READ: Final = "SELECT vocabulary, value, bucket, label, decision FROM backoffice_unknownvalue"

_given: dict[tuple[str, str], Term] = {}
_decision = 0
_asked_at = -math.inf


def heed(decision: int) -> None:
    """Read them anew where `decision`, the last one there is, is another than the last one read."""
    if decision != _decision:
        read()


def refresh() -> None:
    """Read them anew where that was a moment ago: at most one query."""
    if time.monotonic() - _asked_at > REMEMBERED_SECONDS:
        read()


def decision() -> int:
    """The last decision that was read: another one means that other words hold."""
    return _decision


def term(vocabulary: str, value: str) -> Term | None:
    return _given.get((vocabulary, value))


def decided() -> dict[tuple[str, str], Term]:
    """What every decided value means, by vocabulary and value; another object after each read."""
    return _given


def terms(vocabulary: str) -> list[Term]:
    return [item for (name, _), item in _given.items() if name == vocabulary]


def read() -> None:
    """Read them anew."""
    global _given, _decision, _asked_at
    with connection.cursor() as cursor:
        cursor.execute(f"{_READ} WHERE decision > 0 ORDER BY decision")
        rows = cursor.fetchall()
    _given = {
        (vocabulary, value): term_of(value, bucket, label)
        for vocabulary, value, bucket, label, _ in rows
        if bucket
    }
    _decision = rows[-1][-1] if rows else 0
    _asked_at = time.monotonic()


def term_of(value: str, bucket: str, label: str) -> Term:
    """Needs action means at once; how long orders may rest elsewhere has to be learned."""
    return Term(
        value,
        label or value,
        bucket,
        GLYPHS.get(bucket, ""),
        turn=TURNS.get(bucket, ""),
        quiet_after=_AT_ONCE if bucket == NEEDS_ACTION else None,
        known=False,
    )
