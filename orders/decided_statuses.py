"""Move orders into the status group that staff chose for an unknown status, and back.

A decision applies to everything stored after it (`vocabulary.decisions`). Older orders are moved
here in batches. A worker that has not read the decision yet may still store orders in the old
group, so each decision is checked again for a while. If all orders are in the right group, a pass
reads an index and writes nothing.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from backoffice.core import live_changes, vocabulary
from backoffice.core.models import UnknownValue
from backoffice.mirror.rows import uuid_array
from orders.models import Order
from orders.turnaround import limits, measurement

VOCABULARY: Final = "order.low_level_status"
BATCH_SIZE: Final = 2_000
MAX_SECONDS: Final = 20.0
RECHECK_PERIOD: Final = timedelta(minutes=2)
"""How long a decision is checked again. It is longer than any batch of a sync takes."""
RECHECK_INTERVAL: Final = timedelta(seconds=10)
_FINISHED_GROUPS: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)

# Locked rows are skipped: the lock holder is storing the order, and the next pass checks it again.
_SELECT_SQL: Final = """
SELECT created_at, id FROM orders_order
WHERE low_level_status = %s AND bucket <> %s AND (created_at, id) > (%s, %s)
ORDER BY created_at, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
# Only our name for the status changed, so the triggers must not record activity.
_NO_ACTIVITY_SQL: Final = "SELECT set_config('backoffice.no_activity', 'on', true)"
_MOVE_SQL: Final = """
UPDATE orders_order SET bucket = %s, quiet_at = CASE WHEN %s THEN NULL ELSE quiet_at END
WHERE id = ANY(%s::uuid[])
"""

SortKey = tuple[datetime, UUID]
"""Creation time and id of an order: the last one of a batch."""

_START: Final[SortKey] = (datetime(1, 1, 2, tzinfo=timezone.get_fixed_timezone(0)), UUID(int=0))


def apply_decisions(now: datetime | None = None, batch_size: int = BATCH_SIZE) -> int:
    """Move orders into the groups that recent decisions chose; return how many were moved."""
    now = now or timezone.now()
    ends = time.monotonic() + MAX_SECONDS
    fresh = Q(spread_at=None) | Q(spread_at__lt=F("decided_at"))
    later = Q(spread_at__lt=F("decided_at") + RECHECK_PERIOD, spread_at__lte=now - RECHECK_INTERVAL)
    due = list(UnknownValue.objects.filter(fresh | later, vocabulary=VOCABULARY, decision__gt=0))
    if due:
        vocabulary.decisions.reload()
        limits.refresh()
    return sum(_apply_decision(row, now, ends, batch_size) for row in due)


def _apply_decision(row: UnknownValue, now: datetime, ends: float, batch_size: int) -> int:
    if row.value in vocabulary.VOCABULARIES[VOCABULARY]:
        return 0  # A release knows the status by now and takes precedence.
    bucket = row.bucket or vocabulary.UNKNOWN
    moved_count, edge = 0, _START
    own_row = UnknownValue.objects.filter(pk=row.pk, decision=row.decision)
    while batch := _move_batch(row.value, bucket, edge, batch_size):
        moved_count, edge = moved_count + len(batch), batch[-1]
        own_row.update(moved=F("moved") + len(batch))
        if time.monotonic() >= ends:
            return moved_count
    if bucket not in _FINISHED_GROUPS:
        measurement.update_orders_in_status(row.value)
    own_row.update(spread_at=now)
    return moved_count


def _move_batch(status: str, bucket: str, edge: SortKey, batch_size: int) -> list[SortKey]:
    """Move the next batch after `edge` into the bucket; return their (created_at, id)."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NO_ACTIVITY_SQL)
        cursor.execute(_SELECT_SQL, [status, bucket, *edge, batch_size])
        batch: list[SortKey] = cursor.fetchall()
        if batch:
            keys = uuid_array(key for _, key in batch)
            cursor.execute(_MOVE_SQL, [bucket, bucket in _FINISHED_GROUPS, keys])
            join = "JOIN unnest(%s::uuid[]) AS moved(id) USING (id)"
            live_changes.record_row_changes(Order, join, [keys], len(batch))
    return batch
