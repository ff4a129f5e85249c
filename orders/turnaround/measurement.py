"""Usual times are measured from our own events, and open orders are told when they change.

Bounded: whatever the mirror holds, one measure reads the events of the `ORDERS` orders that
changed last. Telling walks the open orders by their index, a batch at a time, and writes only where
a moment is another one: usual times are rounded, so most measures write nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models.fields.tuple_lookups import TupleGreaterThan

from backoffice import mirror
from backoffice.core import vocabulary
from orders.models import Order, UsualTime
from orders.turnaround import limits

ORDERS: Final = 20_000
EVERY: Final = timedelta(hours=1)
BATCH: Final = 5_000
_LOCK: Final = 5_280_117
"""Of this work among PostgreSQL's advisory locks: one process measures at a time."""

_MEASURE = """
WITH recent AS MATERIALIZED (
    SELECT id, method, coalesce(lab_slug, '') AS lab_slug
    FROM orders_order WHERE missing_since IS NULL
    ORDER BY updated_at DESC, id DESC LIMIT %s
), rested AS (
    -- Order by order: a join would be tempted to read every event there is.
    SELECT step.low_level_status, recent.method, recent.lab_slug, step.seconds
    FROM recent CROSS JOIN LATERAL (
        SELECT low_level_status, extract(epoch FROM
            lead(created_at) OVER (ORDER BY created_at, event_id) - created_at) AS seconds
        FROM orders_orderevent WHERE order_id = recent.id
    ) AS step
)
SELECT low_level_status, method, lab_slug, count(*),
    percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY least(seconds, 1e9))
FROM rested WHERE seconds IS NOT NULL
GROUP BY low_level_status, method, lab_slug
"""
# A lock is never waited for: whoever holds one writes the order, and its own moment with it.
_TELL = """
WITH told (id, quiet_at, event_id) AS (
    SELECT * FROM unnest(%s::uuid[], %s::timestamptz[], %s::bigint[])
), mine AS (
    SELECT orders_order.id, told.quiet_at FROM orders_order JOIN told USING (id)
    WHERE orders_order.last_event_id = told.event_id
    FOR NO KEY UPDATE OF orders_order SKIP LOCKED
)
UPDATE orders_order SET quiet_at = mine.quiet_at FROM mine WHERE orders_order.id = mine.id
"""
_AFTER_VISITS = """
WITH told (id, quiet_at) AS (SELECT * FROM unnest(%s::uuid[], %s::timestamptz[])), mine AS (
    SELECT orders_order.id, told.quiet_at FROM orders_order JOIN told USING (id)
    WHERE low_level_status = %s AND orders_order.quiet_at IS DISTINCT FROM told.quiet_at
    FOR NO KEY UPDATE OF orders_order SKIP LOCKED
)
UPDATE orders_order SET quiet_at = mine.quiet_at FROM mine WHERE orders_order.id = mine.id
"""


def measure_when_due(now: datetime | None = None) -> int | None:
    """Measure and tell where the last measure is an hour old; how many orders were told."""
    now = now or datetime.now(UTC)
    if UsualTime.objects.filter(measured_at__gt=now - EVERY).exists():
        return None
    if not measure(now):
        return None
    return tell()


def measure(now: datetime) -> bool:
    """All usual times anew; False where another process is at it."""
    vocabulary.given.refresh()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        if not cursor.fetchone()[0]:
            return False
        cursor.execute(_MEASURE, [ORDERS])
        found = [
            UsualTime(
                low_level_status=status,
                method=method,
                lab_slug=lab,
                samples=samples,
                p50_seconds=round(middle),
                p90_seconds=round(most),
                measured_at=now,
            )
            for status, method, lab, samples, (middle, most) in cursor.fetchall()
        ]
        UsualTime.objects.all().delete()
        UsualTime.objects.bulk_create(found, batch_size=1_000)
    limits.believe(found)
    return True


def tell() -> int:
    """Every order that is on its way, or needs a person, holds the moment it is over its usual
    time. Returns how many held another one."""
    return sum(tell_in(status) for status in _moving())


def tell_in(status: str) -> int:
    """The same for the orders in one status."""
    told = 0
    after: tuple[datetime, UUID] | None = None
    while rows := _page(status, after):
        told += _correct(status, rows)
        after = rows[-1][1], rows[-1][0]
    return told


def after_visits(starts: dict[UUID, datetime | None]) -> None:
    """Orders with a booked visit are over a while after its start."""
    if starts:
        ids = sorted(starts, key=lambda key: key.int)
        moments = [limits.after_visit(starts[key]) for key in ids]
        with connection.cursor() as cursor:
            cursor.execute(_AFTER_VISITS, [mirror.uuid_array(ids), moments, limits.BOOKED])


def _moving() -> list[str]:
    """Statuses that orders hold now, without those that rest for good."""
    statuses: list[str] = []
    with connection.cursor() as cursor:
        # Each value by one step down the index `order_by_status`.
        cursor.execute(
            "WITH RECURSIVE held AS (SELECT min(low_level_status) AS status FROM orders_order"
            " UNION ALL SELECT (SELECT min(low_level_status) FROM orders_order"
            " WHERE low_level_status > held.status) FROM held WHERE held.status IS NOT NULL)"
            " SELECT status FROM held WHERE status IS NOT NULL"
        )
        statuses = [status for (status,) in cursor.fetchall()]
    resting = (vocabulary.RESULT_IN, vocabulary.CLOSED)
    return [
        status
        for status in statuses
        if vocabulary.term("order.low_level_status", status or "unknown").family not in resting
    ]


def _page(status: str, after: tuple[datetime, UUID] | None) -> list[tuple[Any, ...]]:
    rows = Order.objects.filter(low_level_status=status)
    if after is not None:
        rows = rows.filter(TupleGreaterThan(("created_at", "pk"), after))
    return list(
        rows.order_by("created_at", "pk").values_list(
            "pk",
            "created_at",
            "quiet_at",
            "last_event_id",
            "method",
            "lab_slug",
            "last_event_at",
            "activate_by",
            "expected_result_by_date",
        )[:BATCH]
    )


def _correct(status: str, rows: Sequence[tuple[Any, ...]]) -> int:
    if status == limits.BOOKED:
        return _correct_visits([row[0] for row in rows])
    wrong = []
    for key, _, held, event_id, method, lab, since, activate_by, expected in rows:
        right = limits.quiet_at(status, method, lab, since, activate_by, expected)
        if right != held:
            wrong.append((key, right, event_id))
    if wrong:
        ids, moments, events = zip(*wrong, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_TELL, [mirror.uuid_array(ids), list(moments), list(events)])
            return int(cursor.rowcount)
    return 0


def _correct_visits(ids: Sequence[UUID]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, (SELECT start_at FROM orders_appointment AS visit"
            " WHERE visit.order_id = orders_order.id AND superseded_at IS NULL"
            " ORDER BY start_at DESC NULLS LAST LIMIT 1)"
            " FROM orders_order WHERE id = ANY(%s::uuid[])",
            [mirror.uuid_array(ids)],
        )
        after_visits(dict(cursor.fetchall()))
    return 0
