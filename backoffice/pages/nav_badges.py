"""Numbers in the navigation of every page, read together by one statement for each request.

An app declares its query next to the template function that shows the numbers. The query must use a
small index, stop at a limit, and return one row. The names of its columns are the names of the
numbers. `%(user)s` is the primary key of the user.
"""

from __future__ import annotations

from typing import Any, Final

from backoffice.accounts.access import may
from backoffice.core import prepared_queries

_DECLARED: Final[list[tuple[str, str]]] = []
"""The declared queries, each with the permission that it needs."""


def declare(permission: str, query: str) -> None:
    _DECLARED.append((permission, query))


def badge_number(user: Any, name: str) -> Any:
    """Return a number by its name; None if the user may not see it.

    The first call reads all numbers for this request's user.
    """
    numbers: dict[str, Any] | None = getattr(user, "_badge_numbers", None)
    if numbers is None:
        numbers = _read(user)
        user._badge_numbers = numbers
    return numbers.get(name)


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
