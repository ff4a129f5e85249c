"""Records with a newer version that could not be read, for the notices on pages.

A notice comes from the unreadable records of the mirror and from failing lookups. It disappears
once the record can be read. Every page of a result shows its notice; orders and patients show
theirs on their own page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection

KIND: Final = "results"
"""Kind of the lookups and unreadable records that are results."""
RESULT: Final = "result"
ORDER: Final = "order"
PATIENT: Final = "patient"
LOOKUPS: Final = {
    RESULT: (KIND,),
    ORDER: ("orders",),
    PATIENT: ("users", "demographics", "insurance-primary", "insurance-secondary"),
}
"""Kinds of lookups by the kind of record. The key of a lookup is the id of the record."""
_RESOURCES: Final = {
    **{kind: what for what, kinds in LOOKUPS.items() for kind in kinds},
    "orders_result": RESULT,
    "orders_order": ORDER,
    "patients_patient": PATIENT,
    "patients_demographics": PATIENT,
}
MAX_FAILED_READS: Final = 3
"""Number of failed reads from which a record also counts as unreadable.

These are answers that could not be read, or could not be stored for another reason. Requests
without an answer of the service do not count.
"""
MAX_SHOWN: Final = 20

_KINDS_SQL: Final = ", ".join(f"('{resource}', '{what}')" for resource, what in _RESOURCES.items())
_UNREADABLE_SQL: Final = f"""
WITH kinds (resource, what) AS (VALUES {_KINDS_SQL}),
unread AS (
 SELECT k.what, u.key, u.first_seen AS since FROM mirror_unreadrecord u
 JOIN kinds k ON k.resource = u.resource WHERE NOT u.is_stored
 UNION ALL
 SELECT k.what, l.key, NULL FROM sync_lookup l
 JOIN kinds k ON k.resource = l.kind WHERE l.error <> ''
  AND l.unread_answers >= {MAX_FAILED_READS}
), version AS (
 SELECT what, key::uuid AS id, key, min(since) AS since FROM unread
 WHERE key ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$' GROUP BY what, key
)
SELECT version.what, version.id, version.since, (
 SELECT min(l.due_at) FROM kinds k JOIN sync_lookup l ON l.kind = k.resource
 WHERE k.what = version.what AND l.key = version.key
), coalesce(o.user_id, p.id), o.lab_test_name, CASE version.what
 WHEN '{RESULT}' THEN EXISTS (SELECT FROM orders_result r WHERE r.order_id = version.id)
 WHEN '{ORDER}' THEN o.id IS NOT NULL ELSE p.id IS NOT NULL END
FROM version
LEFT JOIN orders_order o ON o.id = version.id AND version.what <> '{PATIENT}'
LEFT JOIN patients_patient p ON p.id = version.id AND version.what = '{PATIENT}'
"""


@dataclass(frozen=True, slots=True)
class UnreadableVersion:
    """One record with a newest version that could not be read.

    A result (by the id of its order), an order, or the data of a patient. `has_older`: an older
    version is shown.
    """

    what: str
    id: UUID
    since: datetime | None
    retry_at: datetime | None
    user_id: UUID | None
    test: str | None
    has_older: bool


def unreadable_result(order_id: UUID) -> UnreadableVersion | None:
    return next(
        iter(_read("WHERE version.id = %s AND version.what = %s", [order_id, RESULT])), None
    )


def for_order(order_id: UUID) -> list[UnreadableVersion]:
    """Return the notices of an order and of its result."""
    condition = "WHERE version.id = %s AND version.what <> %s ORDER BY version.what DESC"
    return _read(condition, [order_id, PATIENT])


def unreadable_among(orders: Sequence[UUID]) -> set[UUID]:
    """Return the ids among `orders` with a newest result that could not be read."""
    condition = "WHERE version.id = ANY(%s) AND version.what = %s"
    return {version.id for version in _read(condition, [list(orders), RESULT])}


def for_patient(user_id: UUID) -> list[UnreadableVersion]:
    """Return the notices of a patient and of their orders and results."""
    return _read("WHERE coalesce(o.user_id, p.id) = %s ORDER BY version.since", [user_id])


def first_results() -> list[UnreadableVersion]:
    """Return the first `MAX_SHOWN` unreadable results, and one more if there are more."""
    return _read("WHERE version.what = %s ORDER BY version.since LIMIT %s", [RESULT, MAX_SHOWN + 1])


def _read(
    condition: str, parameters: Sequence[str | int | UUID | list[UUID]]
) -> list[UnreadableVersion]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_UNREADABLE_SQL} {condition}", parameters)
        return [UnreadableVersion(*row) for row in cursor.fetchall()]
