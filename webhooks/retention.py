"""Delete the bodies of old events, but not the rows.

Message id and digest are never deleted: they identify a repeated delivery. Events that failed or
still wait have their bodies until they are closed.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import connection
from django.utils import timezone

from webhooks import event_log

STEP: Final = 1_000
"""Bodies deleted in one transaction."""

# The states are literals, as in the condition of the partial index for this statement. MATERIALIZED
# is needed: a subquery with a limit may be evaluated again for each row, and would then lock and
# delete more than one step.
_DELETE_BODIES_SQL: Final = """
WITH old AS MATERIALIZED (
    SELECT id FROM webhooks_event
    WHERE state IN ('done', 'skipped', 'quarantined') AND body IS NOT NULL AND id <= %s
    ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE webhooks_event SET body = NULL WHERE id IN (SELECT id FROM old)
"""


def delete_old_bodies(seconds: float | None = None, step: int = STEP) -> int:
    """Delete old bodies until none is left, or for about `seconds`. Return how many.

    `step` is the number of bodies in one transaction.
    """
    if not settings.EVENT_BODY_DAYS:
        return 0
    latest = event_log.last_event_before(timezone.now() - timedelta(days=settings.EVENT_BODY_DAYS))
    ends = None if seconds is None else time.monotonic() + seconds
    deleted = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_DELETE_BODIES_SQL, [latest, step])
            count: int = cursor.rowcount
        deleted += count
        if not count or (ends is not None and time.monotonic() >= ends):
            return deleted
