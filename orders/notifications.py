"""Notify assignees of changes to their orders: needs action, result arrived, visit changed.

Code that changes orders does not call this module. An assignment stores the state of its order that
the assignee knows. One transaction creates notifications of the differences and stores the new
state.
"""

from __future__ import annotations

import json
from typing import Final

from django.db import connection, transaction

from backoffice.accounts.models import User
from backoffice.core import vocabulary
from backoffice.team.notifications import notify

BATCH_SIZE: Final = 500
CANCELLED: Final = "cancelled"

_SELECT_CHANGED_SQL: Final = """
    SELECT assignment.id, assignment.user_id, assignment.subject_id, assignment.known, now_is.state
    FROM team_assignment AS assignment
    JOIN orders_order AS o
        ON o.id = CASE WHEN assignment.subject_type = 'order' THEN assignment.subject_id::uuid END
    LEFT JOIN LATERAL (
        SELECT json_build_array(visit.id, visit.status, visit.start_at) AS summary
        FROM orders_appointment AS visit
        WHERE visit.order_id = o.id AND visit.superseded_at IS NULL
        ORDER BY visit.id LIMIT 1
    ) AS visit ON true
    CROSS JOIN LATERAL (
        SELECT json_build_array(o.last_event_id, o.bucket, visit.summary)::text AS state
    ) AS now_is
    WHERE assignment.subject_type = 'order' AND assignment.known <> now_is.state
    ORDER BY assignment.id
    LIMIT %s
    FOR UPDATE OF assignment SKIP LOCKED
"""


def notify_order_changes() -> int:
    """Notify assignees whose orders changed; return how many notifications were created."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_SELECT_CHANGED_SQL, [BATCH_SIZE])
            rows = cursor.fetchall()
        people = User.objects.in_bulk({row[1] for row in rows})
        count = 0
        for _, user_id, order_id, former_state, state in rows:
            for kind, occasion in _notification_kinds(former_state, state):
                count += notify([people[user_id]], kind, "order", order_id, about=occasion)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE team_assignment AS assignment SET known = seen.state"
                " FROM unnest(%s::bigint[], %s::text[]) AS seen (id, state)"
                " WHERE assignment.id = seen.id",
                [[row[0] for row in rows], [row[4] for row in rows]],
            )
    return count


def _notification_kinds(former_state: str, state: str) -> list[tuple[str, str]]:
    """Return (notification kind, key of the occurrence) for each change between two states.

    The first state is the one at assignment, of which nobody is notified.
    """
    if not former_state:
        return []
    before, (event_id, bucket, visit) = json.loads(former_state), json.loads(state)
    kinds = []
    if event_id != before[0] and bucket == vocabulary.NEEDS_ACTION:
        kinds.append(("needs-action", f"event {event_id}"))
    if event_id != before[0] and bucket == vocabulary.RESULT_IN:
        kinds.append(("result-in", f"event {event_id}"))
    if _is_appointment_changed(before[2], visit):
        kinds.append(("visit-moved", f"visit {json.dumps(visit)}"))
    return kinds


def _is_appointment_changed(before: list[str | None] | None, now: list[str | None] | None) -> bool:
    """Return whether a visit was moved or canceled.

    A first visit, or the first time of a visit, is expected and does not count.
    """
    if before is None or before[1] == CANCELLED:
        return False
    if now is None or now[0] != before[0] or now[1] == CANCELLED:
        return True
    return before[2] is not None and now[2] != before[2]
