"""Small facts in the frame of every page, read together: one statement for each request.

An app declares its facts beside the tag that shows them: a query that a small index answers, that
stops at a limit, and that gives one row. Its columns are their names; `%(user)s` is the key of the
one who looks.
"""

from __future__ import annotations

from typing import Any, Final

from backoffice.core import prepared_queries
from backoffice.core.access import may

_DECLARED: Final[list[tuple[str, str]]] = []
"""Permission and query."""


def declare(permission: str, query: str) -> None:
    _DECLARED.append((permission, query))


def found(user: Any, name: str) -> Any:
    """None for staff who may not see it. Read once for this request's user."""
    known: dict[str, Any] | None = getattr(user, "_frame_numbers", None)
    if known is None:
        known = _read(user)
        user._frame_numbers = known
    return known.get(name)


def _read(user: Any) -> dict[str, Any]:
    queries = [query for permission, query in _DECLARED if may(user, permission)]
    if not queries:
        return {}
    parts = ", ".join(f"({query}) AS part_{n}" for n, query in enumerate(queries))
    with prepared_queries.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {parts}", {"user": user.pk})  # noqa: S608 - our own
        return dict(
            zip((column.name for column in cursor.description), cursor.fetchone(), strict=True)
        )
