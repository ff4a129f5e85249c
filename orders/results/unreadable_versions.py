"""Records of which a newer version could not be read, and the notices that say so.

A notice is derived from what the mirror could not read and from the look-ups that fail: it goes by
itself once the record could be read. Results have it on every page of theirs; an order and a
patient on their own.
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
RESULT: Final = "result"
ORDER: Final = "order"
PATIENT: Final = "patient"
LOOKUPS: Final = {
    RESULT: (KIND,),
    ORDER: ("orders",),
    PATIENT: ("users", "demographics", "insurance-primary", "insurance-secondary"),
}
"""Kinds of look-ups by what they read; the key of each is the id of the record."""
_RESOURCES: Final = {
    **{kind: what for what, kinds in LOOKUPS.items() for kind in kinds},
    "orders_result": RESULT,
    "orders_order": ORDER,
    "patients_patient": PATIENT,
    "patients_demographics": PATIENT,
}
FAILS_OFTEN: Final = 3
"""Answers that could not be read or stored for another reason, after which a record counts as not
readable, too. That the service does not answer is no reason."""
MOST: Final = 20

_KINDS: Final = ", ".join(f"('{resource}', '{what}')" for resource, what in _RESOURCES.items())
_UNREAD: Final = f"""
WITH kinds (resource, what) AS (VALUES {_KINDS}),
unread AS (
 SELECT k.what, u.key, u.first_seen AS since FROM backoffice_unreadrecord u
 JOIN kinds k ON k.resource = u.resource WHERE NOT u.is_stored
 UNION ALL
 SELECT k.what, l.key, NULL FROM backoffice_lookup l
 JOIN kinds k ON k.resource = l.kind WHERE l.error <> ''
  AND l.unread_answers >= {FAILS_OFTEN}
), one AS (
 SELECT what, key::uuid AS id, key, min(since) AS since FROM unread
 WHERE key ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$' GROUP BY what, key
)
SELECT one.what, one.id, one.since, (
 SELECT min(l.due_at) FROM kinds k JOIN backoffice_lookup l ON l.kind = k.resource
 WHERE k.what = one.what AND l.key = one.key
), coalesce(o.user_id, p.id), o.lab_test_name, CASE one.what
 WHEN '{RESULT}' THEN EXISTS (SELECT FROM orders_result r WHERE r.order_id = one.id)
 WHEN '{ORDER}' THEN o.id IS NOT NULL ELSE p.id IS NOT NULL END
FROM one
LEFT JOIN orders_order o ON o.id = one.id AND one.what <> '{PATIENT}'
LEFT JOIN patients_patient p ON p.id = one.id AND one.what = '{PATIENT}'
"""


@dataclass(frozen=True, slots=True)
class UnreadVersion:
    """One record whose newest version could not be read: a result (by its order), an order, or
    what is known of a patient. `has_older`: an older version is shown."""

    what: str
    id: UUID
    since: datetime | None
    retry_at: datetime | None
    user_id: UUID | None
    test: str | None
    has_older: bool

    @property
    def name(self) -> str:
        return "patient’s record" if self.what == PATIENT else self.what


def of_result(order_id: UUID) -> UnreadVersion | None:
    return next(iter(_read("WHERE one.id = %s AND one.what = %s", [order_id, RESULT])), None)


def of_order(order_id: UUID) -> list[UnreadVersion]:
    """Its result, and the order itself."""
    which = "WHERE one.id = %s AND one.what <> %s ORDER BY one.what DESC"
    return _read(which, [order_id, PATIENT])


def among(orders: Sequence[UUID]) -> set[UUID]:
    """Those of `orders` whose newest result could not be read."""
    which = "WHERE one.id = ANY(%s) AND one.what = %s"
    return {one.id for one in _read(which, [list(orders), RESULT])}


def of_patient(user_id: UUID) -> list[UnreadVersion]:
    """The patient, and their orders and results."""
    return _read("WHERE coalesce(o.user_id, p.id) = %s ORDER BY one.since", [user_id])


def of_all() -> list[UnreadVersion]:
    """The first `MOST` results, and one more where there are more."""
    return _read("WHERE one.what = %s ORDER BY one.since LIMIT %s", [RESULT, MOST + 1])


def _read(which: str, given: list[Any]) -> list[UnreadVersion]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_UNREAD} {which}", given)
        return [UnreadVersion(*row) for row in cursor.fetchall()]
