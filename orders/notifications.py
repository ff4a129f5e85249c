"""Telling people what became of orders that are theirs: needs action, result in, visit changed.

Nothing is added where orders change. An assignment remembers the state of its order that its
person knows of; what differs from it now is told, and then remembered, in one transaction.
"""

from __future__ import annotations

import json
from typing import Final

from django.db import connection, transaction

from backoffice.core import vocabulary
from backoffice.models import User
from backoffice.team import notify

AT_ONCE: Final = 500
CANCELLED: Final = "cancelled"

_CHANGED: Final = """
    SELECT mine.id, mine.user_id, mine.subject_id, mine.known, now_is.state
    FROM backoffice_assignment AS mine
    JOIN orders_order AS o
        ON o.id = CASE WHEN mine.subject_type = 'order' THEN mine.subject_id::uuid END
    LEFT JOIN LATERAL (
        SELECT json_build_array(visit.id, visit.status, visit.start_at) AS told
        FROM orders_appointment AS visit
        WHERE visit.order_id = o.id AND visit.superseded_at IS NULL
        ORDER BY visit.id LIMIT 1
    ) AS visit ON true
    CROSS JOIN LATERAL (
        SELECT json_build_array(o.last_event_id, o.bucket, visit.told)::text AS state
    ) AS now_is
    WHERE mine.subject_type = 'order' AND mine.known <> now_is.state
    ORDER BY mine.id
    LIMIT %s
    FOR UPDATE OF mine SKIP LOCKED
"""


def tell_of_orders() -> int:
    """Tell whose orders changed since they were last told; how many were told."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_CHANGED, [AT_ONCE])
            rows = cursor.fetchall()
        people = User.objects.in_bulk({row[1] for row in rows})
        told = 0
        for _, user_id, order_id, known, state in rows:
            for kind, about in _news(known, state):
                told += notify([people[user_id]], kind, "order", order_id, about=about)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE backoffice_assignment AS mine SET known = seen.state"
                " FROM unnest(%s::bigint[], %s::text[]) AS seen (id, state)"
                " WHERE mine.id = seen.id",
                [[row[0] for row in rows], [row[4] for row in rows]],
            )
    return told


def _news(known: str, state: str) -> list[tuple[str, str]]:
    """Kinds of news between two states, each with what names the occurrence. The first state seen
    is what the person took: no news."""
    if not known:
        return []
    before, (event_id, bucket, visit) = json.loads(known), json.loads(state)
    found = []
    if event_id != before[0] and bucket == vocabulary.NEEDS_ACTION:
        found.append(("needs-action", f"event {event_id}"))
    if event_id != before[0] and bucket == vocabulary.RESULT_IN:
        found.append(("result-in", f"event {event_id}"))
    if _moved(before[2], visit):
        found.append(("visit-moved", f"visit {json.dumps(visit)}"))
    return found


def _moved(before: list[str | None] | None, now: list[str | None] | None) -> bool:
    """A first visit, or its time when there was none yet, is what somebody waited for."""
    if before is None or before[1] == CANCELLED:
        return False
    if now is None or now[0] != before[0] or now[1] == CANCELLED:
        return True
    return before[2] is not None and now[2] != before[2]
