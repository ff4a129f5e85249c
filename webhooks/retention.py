"""Forget what events said once it is old: their bodies go, the record of their receipt stays.

The message id and the digest stay for good: they make a repeat a repeat. Events that failed or
still wait keep their bodies until they are done with.
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
"""Bodies forgotten in one transaction."""

# Conditions stand in the text, as in the partial index that answers this. Materialized: a subquery
# with a limit may be run again for each row, and lock and forget more than one step.
_DELETE_BODIES_SQL: Final = """
WITH old AS MATERIALIZED (
    SELECT id FROM webhooks_event
    WHERE state IN ('done', 'skipped', 'quarantined') AND body IS NOT NULL AND id <= %s
    ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE webhooks_event SET body = NULL WHERE id IN (SELECT id FROM old)
"""


def delete_old_bodies(seconds: float | None = None) -> int:
    """Forget old bodies until none is left, or for about `seconds`. Returns how many."""
    if not settings.EVENT_BODY_DAYS:
        return 0
    latest = event_log.last_event_before(timezone.now() - timedelta(days=settings.EVENT_BODY_DAYS))
    ends = None if seconds is None else time.monotonic() + seconds
    forgotten = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_DELETE_BODIES_SQL, [latest, STEP])
            count: int = cursor.rowcount
        forgotten += count
        if not count or (ends is not None and time.monotonic() >= ends):
            return forgotten
