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

from backoffice.core.vocabulary.terms import GLYPHS, NEEDS_ACTION, TURNS, Term

REMEMBERED_SECONDS: Final = 2.0
_AT_ONCE: Final = timedelta(0)
_READ: Final = "SELECT vocabulary, value, bucket, label, decision FROM backoffice_unknownvalue"

_terms: dict[tuple[str, str], Term] = {}
_decision = 0
_read_at = -math.inf


def refresh_to(decision: int) -> None:
    """Reload when `decision`, the last one in the database, is not the last one that was read."""
    if decision != _decision:
        reload()


def refresh_if_stale() -> None:
    """Read them anew where that was a moment ago: at most one query."""
    if time.monotonic() - _read_at > REMEMBERED_SECONDS:
        reload()


def last_decision() -> int:
    """The last decision that was read: another one means that other words hold."""
    return _decision


def term(vocabulary: str, value: str) -> Term | None:
    return _terms.get((vocabulary, value))


def decided_terms() -> dict[tuple[str, str], Term]:
    """What every decided value means, by vocabulary and value; another object after each read."""
    return _terms


def terms_of(vocabulary: str) -> list[Term]:
    return [item for (name, _), item in _terms.items() if name == vocabulary]


def reload() -> None:
    """Read them anew."""
    global _terms, _decision, _read_at
    with connection.cursor() as cursor:
        cursor.execute(f"{_READ} WHERE decision > 0 ORDER BY decision")
        rows = cursor.fetchall()
    _terms = {
        (vocabulary, value): build_term(value, bucket, label)
        for vocabulary, value, bucket, label, _ in rows
        if bucket
    }
    _decision = rows[-1][-1] if rows else 0
    _read_at = time.monotonic()


def build_term(value: str, bucket: str, label: str) -> Term:
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
