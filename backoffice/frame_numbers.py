"""Small numbers in the frame of every page, counted together: one statement for each request.

An app declares its number beside the tag that shows it. Each is a scalar subquery that a small
index answers and that stops at a limit; `%(user)s` is the key of the one who looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from backoffice.access import may


@dataclass(frozen=True, slots=True)
class _Number:
    permission: str
    sql: str


_DECLARED: Final[dict[str, _Number]] = {}


def declare(name: str, permission: str, sql: str) -> None:
    _DECLARED[name] = _Number(permission, sql)


def number(user: Any, name: str) -> int | None:
    """None for staff who may not see it. Read once for this request's user."""
    known: dict[str, int] | None = getattr(user, "_frame_numbers", None)
    if known is None:
        known = _read(user)
        user._frame_numbers = known
    return known.get(name)


def _read(user: Any) -> dict[str, int]:
    seen = {name: one.sql for name, one in _DECLARED.items() if may(user, one.permission)}
    if not seen:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ({'), ('.join(seen.values())})", {"user": user.pk})
        return dict(zip(seen, cursor.fetchone(), strict=True))
