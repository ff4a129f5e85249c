"""Orders follow what people decide on a status that no release knows: into its bucket, and back.

A decision holds for what is stored from then on (`vocabulary.given`). Orders that are here already
are brought along by batches. A worker that had not heard of it may store some into the old bucket
for a moment longer, so each decision is looked after for a while; a pass over orders that are all
in place reads an index and writes nothing.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from backoffice import mirror
from backoffice.core import changes, vocabulary
from backoffice.models import UnknownValue
from orders.models import Order
from orders.turnaround import limits, measurement

STATUS: Final = "order.low_level_status"
BATCH: Final = 2_000
SECONDS: Final = 20.0
AFTER: Final = timedelta(minutes=2)
"""For so long a decision is looked after: longer than any batch of a sync takes."""
EVERY: Final = timedelta(seconds=10)
_RESTING: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)

# A lock is never waited for: whoever holds one stores the order, and the next pass looks again.
_FIND: Final = """
SELECT created_at, id FROM orders_order
WHERE low_level_status = %s AND bucket <> %s AND (created_at, id) > (%s, %s)
ORDER BY created_at, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
# It is our word for it that changed: nothing has happened to these orders.
_NO_NEWS: Final = "SELECT set_config('backoffice.no_news', 'on', true)"
_MOVE: Final = """
UPDATE orders_order SET bucket = %s, quiet_at = CASE WHEN %s THEN NULL ELSE quiet_at END
WHERE id = ANY(%s::uuid[])
"""
_FIRST: Final = (datetime(1, 1, 2, tzinfo=timezone.get_fixed_timezone(0)), UUID(int=0))


def follow(now: datetime | None = None) -> int:
    """Bring orders to where the decisions of late want them; how many were brought."""
    now = now or timezone.now()
    ends = time.monotonic() + SECONDS
    fresh = Q(spread_at=None) | Q(spread_at__lt=F("decided_at"))
    later = Q(spread_at__lt=F("decided_at") + AFTER, spread_at__lte=now - EVERY)
    due = list(UnknownValue.objects.filter(fresh | later, vocabulary=STATUS, decision__gt=0))
    if due:
        vocabulary.given.read()
        limits.refresh()
    return sum(_follow(row, now, ends) for row in due)


def _follow(row: UnknownValue, now: datetime, ends: float) -> int:
    if row.value in vocabulary.VOCABULARIES[STATUS]:
        return 0  # A release knows it by now, and has the last word.
    bucket = row.bucket or vocabulary.UNKNOWN
    moved, edge = 0, _FIRST
    mine = UnknownValue.objects.filter(pk=row.pk, decision=row.decision)
    while found := _move(row.value, bucket, edge):
        moved, edge = moved + len(found), found[-1]
        mine.update(moved=F("moved") + len(found))
        if time.monotonic() >= ends:
            return moved
    if bucket not in _RESTING:
        measurement.tell_in(row.value)
    mine.update(spread_at=now)
    return moved


def _move(status: str, bucket: str, edge: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The next ones beyond the edge that are elsewhere, brought into the bucket."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NO_NEWS)
        cursor.execute(_FIND, [status, bucket, *edge, BATCH])
        found: list[tuple[Any, ...]] = cursor.fetchall()
        if found:
            keys = mirror.uuid_array(key for _, key in found)
            cursor.execute(_MOVE, [bucket, bucket in _RESTING, keys])
            join = "JOIN unnest(%s::uuid[]) AS wanted(id) USING (id)"
            changes.rows_changed(Order, join, [keys], len(found))
    return found
