"""Decisions of administrators on unknown values, cached in memory.

They are stored in `UnknownValue`. The query that loads the user of a page also returns the number
of the last decision (`accounts.backend.StaffBackend`), so a page reloads them only after a new one.
Workers reload them after two seconds. Both reload them before they start their work, because terms
are needed while rows are sent to PostgreSQL, when no query is possible.
"""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import Final

from django.db import connection

from backoffice.core.vocabulary.status_groups import GLYPHS, NEEDS_ACTION
from backoffice.core.vocabulary.terms import TURNS, Term

REMEMBERED_SECONDS: Final = 2.0
_AT_ONCE: Final = timedelta(0)
_READ_DECISIONS: Final = "SELECT vocabulary, value, bucket, label, decision FROM core_unknownvalue"

_terms: dict[tuple[str, str], Term] = {}
_decision = 0
_read_at = -math.inf


def refresh_to(decision: int) -> None:
    """Reload unless `decision`, the last one in the database, is the last one that was read."""
    if decision != _decision:
        reload()


def refresh_if_stale() -> None:
    """Reload when the last read is older than `REMEMBERED_SECONDS`; at most one query."""
    if time.monotonic() - _read_at > REMEMBERED_SECONDS:
        reload()


def last_decision() -> int:
    """Return the number of the last decision that was read."""
    return _decision


def term(vocabulary: str, value: str) -> Term | None:
    return _terms.get((vocabulary, value))


def decided_terms() -> dict[tuple[str, str], Term]:
    """Return the terms by vocabulary and value; each reload creates a new dictionary."""
    return _terms


def terms_of(vocabulary: str) -> list[Term]:
    return [item for (name, _), item in _terms.items() if name == vocabulary]


def reload() -> None:
    """Read all decisions from the database."""
    global _terms, _decision, _read_at
    with connection.cursor() as cursor:
        cursor.execute(f"{_READ_DECISIONS} WHERE decision > 0 ORDER BY decision")
        rows = cursor.fetchall()
    _terms = {
        (vocabulary, value): build_term(value, bucket, label)
        for vocabulary, value, bucket, label, _ in rows
        if bucket
    }
    _decision = rows[-1][-1] if rows else 0
    _read_at = time.monotonic()


def build_term(value: str, bucket: str, label: str) -> Term:
    """Return the term of a decision.

    A term that needs action has a `quiet_after` of zero; the other terms have none.
    """
    return Term(
        value,
        label or value,
        bucket,
        GLYPHS.get(bucket, ""),
        turn=TURNS.get(bucket, ""),
        quiet_after=_AT_ONCE if bucket == NEEDS_ACTION else None,
    )
