"""Results of which a newer version could not be read, and the notices that say so.

A notice is derived from what the mirror could not read and from the look-ups that fail: it goes by
itself once the result could be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

KIND: Final = "results"
"""Of the look-ups, and of the records that could not be read, that are results."""
FAILS_OFTEN: Final = 3
"""Attempts after which a look-up that fails for another reason counts as not readable, too."""
MOST: Final = 20

_UNREAD: Final = f"""
WITH unread AS (
 SELECT key, first_seen AS since FROM backoffice_unreadrecord
 WHERE resource = '{KIND}' AND NOT is_stored
 UNION ALL
 SELECT key, NULL FROM backoffice_lookup
 WHERE kind = '{KIND}' AND error <> '' AND attempts >= {FAILS_OFTEN}
), one AS (
 SELECT key::uuid AS order_id, key, min(since) AS since FROM unread
 WHERE key ~ '^[0-9a-f-]{{36}}$' GROUP BY key
)
SELECT one.order_id, one.since, l.due_at, o.user_id, o.lab_test_name, r.order_id IS NOT NULL
FROM one
LEFT JOIN backoffice_lookup l ON l.kind = '{KIND}' AND l.key = one.key
LEFT JOIN orders_order o ON o.id = one.order_id
LEFT JOIN orders_result r ON r.order_id = one.order_id
"""


@dataclass(frozen=True, slots=True)
class UnreadResult:
    """One result whose newest version could not be read. `has_older`: an older one is shown."""

    order_id: UUID
    since: datetime | None
    retry_at: datetime | None
    user_id: UUID | None
    test: str | None
    has_older: bool


def of_order(order_id: UUID) -> UnreadResult | None:
    return next(iter(_read("WHERE one.order_id = %s", [order_id])), None)


def among(orders: Sequence[UUID]) -> set[UUID]:
    """Those of `orders` whose newest result could not be read."""
    return {one.order_id for one in _read("WHERE one.order_id = ANY(%s)", [list(orders)])}


def of_patient(user_id: UUID) -> list[UnreadResult]:
    return _read("WHERE o.user_id = %s ORDER BY one.since", [user_id])


def of_all() -> list[UnreadResult]:
    """The first `MOST`, and one more where there are more."""
    return _read("ORDER BY one.since LIMIT %s", [MOST + 1])


def _read(which: str, given: list[Any]) -> list[UnreadResult]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_UNREAD} {which}", given)
        return [UnreadResult(*row) for row in cursor.fetchall()]
