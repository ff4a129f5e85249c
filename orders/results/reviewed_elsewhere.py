"""Sign results that were reviewed in another system, with a note about that."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection, transaction
from django.utils.translation import gettext_noop

from backoffice.accounts.models import User
from backoffice.audit.recording import record_follow_up

BATCH_SIZE: Final = 1_000
NOTE: Final = gettext_noop("Reviewed in another system before this back office was in use")

RECIPIENT: Final = gettext_noop("the person named in the other system")

# Why a result is not signed with the others, the most serious reason first. The one parameter is
# whether critical results are signed.
_REASON: Final = """
 CASE WHEN review.identity = 'different' THEN 'name somebody else'
  WHEN review.critical_since IS NOT NULL AND NOT %s THEN 'are critical (see --critical)'
  WHEN review.kind = 'partial' THEN 'are partial'
  WHEN review.kind NOT IN ('final', 'corrected') THEN 'have an unknown status'
  WHEN review.has_uninterpreted THEN 'have values that are not interpreted' END
"""
_COUNT_REMAINING: Final = f"""
SELECT {_REASON}, count(*) FROM orders_review AS review
JOIN orders_order AS o ON o.id = review.order_id
WHERE review.version > review.signed AND review.version > 0 AND o.last_event_at < %s
GROUP BY 1 ORDER BY 2 DESC, 1
"""

# Locks the reviews as the page for signing does, and signs the newest version of each result.
_SIGN: Final = f"""
WITH chosen AS (
 SELECT review.order_id, review.version, review.user_id, review.critical_since
 FROM orders_review AS review JOIN orders_order AS o ON o.id = review.order_id
 WHERE review.version > review.signed AND review.version > 0
  AND o.last_event_at < %s AND {_REASON} IS NULL
 ORDER BY review.order_id LIMIT %s FOR UPDATE OF review
), critical AS (
 SELECT chosen.order_id, chosen.version, v.critical FROM chosen
 JOIN orders_resultversion v ON v.order_id = chosen.order_id AND v.number = chosen.version
 WHERE chosen.critical_since IS NOT NULL
), acknowledged AS (
 INSERT INTO orders_criticalacknowledgement (order_id, version, by_id, "values")
 SELECT order_id, version, %s, critical FROM critical
), called AS (
 INSERT INTO orders_criticalcall
  (order_id, version, by_id, "values", recipient, outcome, note, made_by_service_network, source)
 SELECT order_id, version, %s, critical, %s, 'reached_no_read_back', '', false, %s FROM critical
), signed AS (
 INSERT INTO orders_signature (order_id, version, kind, by_id, note, tells)
 SELECT order_id, version, 'signed', %s, %s, '' FROM chosen
)
SELECT order_id, user_id, critical_since IS NOT NULL FROM chosen
"""


def sign(before: datetime, by: User, *, critical: bool = False) -> int:
    """Sign the waiting results that are older than `before`. Return how many were signed."""
    total = 0
    while count := _sign_batch(before, by, critical):
        total += count
    return total


def count_remaining(before: datetime, *, critical: bool = False) -> list[tuple[str, int]]:
    """Return how many older results are left for review, by reason."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_REMAINING, [critical, before])
        return [(reason, count) for reason, count in cursor.fetchall() if reason]


def _sign_batch(before: datetime, by: User, critical: bool) -> int:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            _SIGN, [before, critical, BATCH_SIZE, by.pk, by.pk, RECIPIENT, NOTE, by.pk, NOTE]
        )
        rows: list[tuple[UUID, UUID | None, bool]] = cursor.fetchall()
        _record(by, "sign result", rows)
        for kind in ("acknowledge critical", "critical call"):
            _record(by, kind, [row for row in rows if row[2]])
    return len(rows)


def _record(by: User, kind: str, rows: list[tuple[UUID, UUID | None, bool]]) -> None:
    if rows:
        record_follow_up(by, kind, [row[0] for row in rows], [row[1] for row in rows])
