"""Measure usual times from our own events, and update `quiet_at` of open orders.

The work is limited, whatever the size of the mirror: one measurement reads the events of the
`MAX_ORDERS` orders that changed last. The update reads the open orders along their index, in
batches, and writes only rows that differ. Usual times are rounded, so most measurements write
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models.fields.tuple_lookups import TupleGreaterThan

from backoffice.core import vocabulary
from backoffice.mirror.rows import uuid_array
from orders.models import Order, UsualTime
from orders.turnaround import limits

MAX_ORDERS: Final = 20_000
INTERVAL: Final = timedelta(hours=1)
BATCH_SIZE: Final = 5_000
_LOCK: Final = 5_280_117
"""Number of the advisory lock in PostgreSQL: one process measures at a time."""

_MEASURE_SQL = """
WITH recent AS MATERIALIZED (
    SELECT id, method, coalesce(lab_slug, '') AS lab_slug
    FROM orders_order WHERE missing_since IS NULL
    ORDER BY updated_at DESC, id DESC LIMIT %s
), steps AS (
    -- One order at a time: the planner could run a plain join over every event there is.
    SELECT step.low_level_status, recent.method, recent.lab_slug, step.seconds
    FROM recent CROSS JOIN LATERAL (
        SELECT low_level_status, extract(epoch FROM
            lead(created_at) OVER (ORDER BY created_at, event_id) - created_at) AS seconds
        FROM orders_orderevent WHERE order_id = recent.id
    ) AS step
)
SELECT low_level_status, method, lab_slug, count(*),
    percentile_cont(ARRAY[0.5, 0.9]) WITHIN GROUP (ORDER BY least(seconds, 1e9))
FROM steps WHERE seconds IS NOT NULL
GROUP BY low_level_status, method, lab_slug
"""
# Locked rows are skipped: the lock holder writes the order and its `quiet_at`.
_UPDATE_SQL = """
WITH given (id, quiet_at, event_id) AS (
    SELECT * FROM unnest(%s::uuid[], %s::timestamptz[], %s::bigint[])
), locked AS (
    SELECT orders_order.id, given.quiet_at FROM orders_order JOIN given USING (id)
    WHERE orders_order.last_event_id = given.event_id
    FOR NO KEY UPDATE OF orders_order SKIP LOCKED
)
UPDATE orders_order SET quiet_at = locked.quiet_at FROM locked WHERE orders_order.id = locked.id
"""
_UPDATE_BOOKED_SQL = """
WITH given (id, quiet_at) AS (SELECT * FROM unnest(%s::uuid[], %s::timestamptz[])), locked AS (
    SELECT orders_order.id, given.quiet_at FROM orders_order JOIN given USING (id)
    WHERE low_level_status = %s AND orders_order.quiet_at IS DISTINCT FROM given.quiet_at
    FOR NO KEY UPDATE OF orders_order SKIP LOCKED
)
UPDATE orders_order SET quiet_at = locked.quiet_at FROM locked WHERE orders_order.id = locked.id
"""


def measure_when_due(now: datetime | None = None) -> int | None:
    """Measure and update orders if the last measurement is an hour old.

    Return how many orders were updated; None if nothing was measured.
    """
    now = now or datetime.now(UTC)
    if UsualTime.objects.filter(measured_at__gt=now - INTERVAL).exists():
        return None
    if not measure(now):
        return None
    return update_open_orders()


def measure(now: datetime, max_orders: int = MAX_ORDERS) -> bool:
    """Measure all usual times again; return False if another process is measuring."""
    vocabulary.decisions.refresh_if_stale()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        if not cursor.fetchone()[0]:
            return False
        cursor.execute(_MEASURE_SQL, [max_orders])
        usual_times = [
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
        UsualTime.objects.bulk_create(usual_times, batch_size=1_000)
    limits.use_measurements(usual_times)
    return True


def update_open_orders(batch_size: int = BATCH_SIZE) -> int:
    """Set `quiet_at` of every order that is under way or needs action.

    Return how many orders changed.
    """
    return sum(update_orders_in_status(status, batch_size) for status in _unfinished_statuses())


def update_orders_in_status(status: str, batch_size: int = BATCH_SIZE) -> int:
    """Set `quiet_at` of the orders in one status; return how many changed."""
    updated = 0
    last_seen: tuple[datetime, UUID] | None = None
    while orders := _order_batch(status, last_seen, batch_size):
        updated += _correct_orders(status, orders)
        last_seen = orders[-1].created_at, orders[-1].pk
    return updated


def update_booked_orders(starts: dict[UUID, datetime | None]) -> None:
    """Set `quiet_at` of orders with a booked visit to a while after its start.

    `starts`: start of the visit by order.
    """
    if starts:
        ids = sorted(starts, key=lambda key: key.int)
        moments = [limits.booked_quiet_at(starts[key]) for key in ids]
        with connection.cursor() as cursor:
            cursor.execute(_UPDATE_BOOKED_SQL, [uuid_array(ids), moments, limits.BOOKED])


def _unfinished_statuses() -> list[str]:
    """Return the statuses that orders have now, without the final ones."""
    with connection.cursor() as cursor:
        # One index lookup per distinct value, by the index `order_by_status`.
        cursor.execute(
            "WITH RECURSIVE present AS (SELECT min(low_level_status) AS status FROM orders_order"
            " UNION ALL SELECT (SELECT min(low_level_status) FROM orders_order"
            " WHERE low_level_status > present.status)"
            " FROM present WHERE present.status IS NOT NULL)"
            " SELECT status FROM present WHERE status IS NOT NULL"
        )
        statuses = [status for (status,) in cursor.fetchall()]
    resting = (vocabulary.RESULT_IN, vocabulary.CLOSED)
    return [
        status
        for status in statuses
        if vocabulary.term("order.low_level_status", status or "unknown").family not in resting
    ]


class _StoredOrder(NamedTuple):
    """The columns of an order that decide when it becomes overdue."""

    pk: UUID
    created_at: datetime
    quiet_at: datetime | None
    last_event_id: int
    method: str
    lab_slug: str | None
    last_event_at: datetime | None
    activate_by: date | None
    expected_result_by_date: date | None


def _order_batch(
    status: str, last_seen: tuple[datetime, UUID] | None, batch_size: int
) -> list[_StoredOrder]:
    rows = Order.objects.filter(low_level_status=status)
    if last_seen is not None:
        rows = rows.filter(TupleGreaterThan(("created_at", "pk"), last_seen))
    values = rows.order_by("created_at", "pk").values_list(*_StoredOrder._fields)
    return [_StoredOrder(*row) for row in values[:batch_size]]


def _correct_orders(status: str, orders: Sequence[_StoredOrder]) -> int:
    if status == limits.BOOKED:
        return _correct_booked_orders([order.pk for order in orders])
    wrong = []
    for order in orders:
        quiet_at = limits.quiet_at(
            status,
            order.method,
            order.lab_slug,
            order.last_event_at,
            order.activate_by,
            order.expected_result_by_date,
        )
        if quiet_at != order.quiet_at:
            wrong.append((order.pk, quiet_at, order.last_event_id))
    if wrong:
        ids, moments, events = zip(*wrong, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_UPDATE_SQL, [uuid_array(ids), list(moments), list(events)])
            return int(cursor.rowcount)
    return 0


def _correct_booked_orders(ids: Sequence[UUID]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, (SELECT start_at FROM orders_appointment AS visit"
            " WHERE visit.order_id = orders_order.id AND superseded_at IS NULL"
            " ORDER BY start_at DESC NULLS LAST LIMIT 1)"
            " FROM orders_order WHERE id = ANY(%s::uuid[])",
            [uuid_array(ids)],
        )
        update_booked_orders(dict(cursor.fetchall()))
    return 0
