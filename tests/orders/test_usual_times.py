"""Usual times learned from a seeded history, and which orders exceed theirs.

The oracle below follows the table of the design (visual.md, 4), without the vocabulary and without
the code under test. It computes percentiles and working time in other ways.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from django.db import connection, transaction

from backoffice.core import vocabulary
from backoffice.mirror.tables import MirrorRecord
from backoffice.pages.macros import render_macro
from orders.models import Appointment, Order, OrderEvent, UsualTime
from orders.next_actor import next_actor
from orders.progress import current_step
from orders.sync.orders import ORDERS
from orders.turnaround import limits, measurement
from tests.api.rows import envelope, order, uid
from tests.mirror_records import apply, event, minutes
from tests.mirror_records import order as order_record

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY_AFTER_EXPECTED = datetime(2026, 11, 25, 10, tzinfo=UTC)
"""The 24th is over by then, in Hawaii, too."""
ORDER_COUNT = 200
STEPS = (
    *("ordered", "requisition_created", "transit_customer", "with_customer", "transit_lab"),
    *("delivered_to_lab", "completed"),
)
LAST_STEPS = (
    *("lost", "sample_error", "problem_in_transit_lab", "lab_processing_blocked", "teleported"),
    *("redraw_available", "appointment_cancelled", "cancelled", "corrected"),
)
FIXED_HOURS = {
    "ordered": 8, "awaiting_registration": 72, "transit_customer": 144, "out_for_delivery": 24,
    "with_customer": 168, "registered": 120, "appointment_pending": 24, "draw_completed": 48,
    "transit_lab": 144, "delivered_to_lab": 168, "partial_results": 168,
    "problem_in_transit_customer": 0, "problem_in_transit_lab": 0, "lost": 0, "sample_error": 0,
    "failure_to_deliver_to_customer": 0, "failure_to_deliver_to_lab": 0,
    "lab_processing_blocked": 0, "redraw_available": 72, "appointment_cancelled": 24,
}  # fmt: skip
NEVER_LEARNED = {"lost", "sample_error", "problem_in_transit_lab", "lab_processing_blocked",
                 "redraw_available", "appointment_cancelled", "cancelled", "corrected",
                 "completed", "appointment_scheduled"}  # fmt: skip


@pytest.fixture(autouse=True)
def no_measurements() -> Iterator[None]:
    limits.use_measurements([])
    yield
    limits.use_measurements([])
    limits.expire_cache()


def seed() -> None:
    """Create orders of two methods and three labs in every step, including future dates."""
    rng = random.Random(5)
    orders, events = [], []
    for n in range(ORDER_COUNT):
        method = rng.choice(("testkit", "testkit", "walk_in_test"))
        lab = rng.choice(("north", "north", "south", None))
        steps = list(STEPS[: rng.randint(1, len(STEPS))])
        if rng.random() < 0.3:
            steps.append(rng.choice(LAST_STEPS))
        at = NOW - timedelta(days=rng.randint(1, 60), minutes=rng.randint(0, 1400))
        order_events = []
        for number, step in enumerate(steps):
            order_events.append(
                OrderEvent(order_id=uid("order", n), event_id=number, created_at=at,
                           status=f"received.{method}.{step}", low_level_status=step)
            )  # fmt: skip
            at += rng.choice((timedelta(0), HOUR / 7, HOUR * 30, HOUR * rng.randint(1, 200)))
        last = order_events[-1]
        if rng.random() < 0.03:
            order_events, last = [], None  # type: ignore[assignment]
        low = last.low_level_status if last else ""
        events += order_events
        orders.append(
            order(
                n,
                method=method,
                lab_slug=lab,
                low_level_status=low,
                bucket=vocabulary.order_bucket(low, method, steps),
                last_event_at=last.created_at if last else None,
                last_event_id=last.event_id if last else 0,
                activate_by=rng.choice((None, None, date(2026, 11, 25), date(2026, 10, 1))),
                expected_result_by_date=rng.choice((None, date(2026, 11, 19), date(2026, 12, 1))),
                updated_at=NOW - timedelta(minutes=n),
            )
        )
    Order.objects.bulk_create(orders)
    OrderEvent.objects.bulk_create(events)


def step_durations() -> dict[tuple[str, str, str], list[float]]:
    """Return the seconds that orders stayed in each step, read from the tables event by event."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in Order.objects.all():
        steps = sorted(
            OrderEvent.objects.filter(order_id=row.pk), key=lambda e: (e.created_at, e.event_id)
        )
        for one, after in pairwise(steps):
            key = (one.low_level_status, row.method, row.lab_slug or "")
            found.setdefault(key, []).append((after.created_at - one.created_at).total_seconds())
    return found


def percentile(values: list[float], fraction: float) -> float:
    ranked = sorted(values)
    rank = fraction * (len(ranked) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (rank - low)


def expected_moment(
    row: Order, learned: dict[tuple[str, str, str], list[float]]
) -> datetime | None:
    """Return when the order exceeds its usual time, by the table of the design."""
    low, since = row.low_level_status, row.last_event_at
    if since is None or low in ("completed", "corrected", "cancelled", "do_not_process"):
        return None
    samples = learned.get((low, row.method, row.lab_slug or ""), [])
    known = len(samples) >= 30 and low not in NEVER_LEARNED
    if low == "delivered_to_lab" and row.expected_result_by_date:
        day = row.expected_result_by_date
        return max(since, datetime(day.year, day.month, day.day, 10, tzinfo=UTC) + 24 * HOUR)
    if low == "ordered" and row.activate_by:
        day = row.activate_by
        since = max(since, datetime(day.year, day.month, day.day, tzinfo=UTC))
    if known:
        hours = max(math.ceil(percentile(samples, 0.9) / 3600), 1)
        return since + HOUR * (hours if hours <= 48 else math.ceil(hours / 24) * 24)
    if low == "requisition_created":
        if row.method == "walk_in_test":
            return since + 7 * 24 * HOUR
        return add_working_hours(since, 48) if row.method == "testkit" else since + 48 * HOUR
    return since + HOUR * FIXED_HOURS[low] if low in FIXED_HOURS else None


def add_working_hours(since: datetime, hours: int) -> datetime:
    """Add working time minute by minute."""
    left, at = hours * 60, since
    while left:
        if at.isoweekday() > 5:
            at = at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
            continue
        at, left = at + timedelta(minutes=1), left - 1
    return at


@pytest.mark.django_db
def test_seeded_history_gives_expected_overdue_orders() -> None:
    seed()
    assert measurement.measure(NOW)
    measured = {
        (u.low_level_status, u.method, u.lab_slug): (u.samples, u.p50_seconds, u.p90_seconds)
        for u in UsualTime.objects.all()
    }
    learned = step_durations()
    assert measured == {
        key: (len(v), round(percentile(v, 0.5)), round(percentile(v, 0.9)))
        for key, v in learned.items()
    }
    assert any(len(v) >= 30 for v in learned.values()), "some steps have enough samples"
    assert any(len(v) < 30 for v in learned.values()), "some steps have too few samples"
    measurement.update_open_orders()
    expected = {row.pk: expected_moment(row, learned) for row in Order.objects.all()}
    stored = dict(Order.objects.values_list("pk", "quiet_at"))
    assert stored == expected
    over = set(Order.objects.filter(quiet_at__lte=NOW).values_list("pk", flat=True))
    assert over == {key for key, moment in expected.items() if moment and moment <= NOW}
    assert 20 < len(over) < ORDER_COUNT - 20
    assert measurement.update_open_orders() == 0, "a second update has no changes"


@pytest.mark.django_db
def test_sync_writes_same_due_time_as_measurement() -> None:
    """A new order gets its due time immediately, by learned times where there are enough
    samples."""
    apply(ORDERS, order_record(1, events=[event(1, "with_customer")]))
    row = Order.objects.get()
    assert row.last_event_at is not None
    assert row.quiet_at == row.last_event_at + timedelta(days=7)
    limits.use_measurements(usual_times("with_customer", 3 * 86_400 - 100, samples=29))
    apply(ORDERS, order_record(1, updated=1, events=[event(1, "with_customer")]))
    assert Order.objects.get().quiet_at == row.quiet_at, "29 samples are no history yet"
    limits.use_measurements(usual_times("with_customer", 3 * 86_400 - 100, samples=30))
    apply(ORDERS, order_record(1, updated=2, events=[event(1, "with_customer")]))
    assert Order.objects.get().quiet_at == row.last_event_at + timedelta(days=3)
    assert measurement.update_open_orders() == 0


def usual_times(
    status: str, p90: int, samples: int = 30, method: str = "testkit"
) -> list[UsualTime]:
    return [
        UsualTime(low_level_status=status, method=method, samples=samples, p50_seconds=p90 // 2,
                  p90_seconds=p90, measured_at=NOW)
    ]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("step", ["teleported", "completed", "corrected", "cancelled"])
def test_final_and_unknown_steps_are_never_overdue(step: str) -> None:
    apply(ORDERS, order_record(1, events=[event(1, step)]))
    assert Order.objects.get().quiet_at is None


@pytest.mark.django_db
def test_due_time_beyond_calendar_is_capped() -> None:
    """Such orders are never late, but they stay in their group, which is sorted by this time."""
    far = event(1, "lost", created_at="9998-12-31T23:59:59+00:00")
    assert apply(ORDERS, order_record(1, events=[far])).unreadable == 0
    due = Order.objects.get().quiet_at
    assert due is not None and due.year == 9000


@pytest.mark.parametrize(
    ("status", "more", "expected_time"),
    [
        ("ordered", {}, NOW + 8 * HOUR),
        ("ordered", {"activate_by": date(2026, 12, 1)}, datetime(2026, 12, 1, 8, tzinfo=UTC)),
        ("ordered", {"activate_by": date(2026, 11, 1)}, NOW + 8 * HOUR),
        ("ordered", {"activate_by": date.max}, datetime(9000, 1, 1, 8, tzinfo=UTC)),
        ("delivered_to_lab", {}, NOW + timedelta(days=7)),
        ("delivered_to_lab", {"expected": date(2026, 11, 24)}, DAY_AFTER_EXPECTED),
        ("delivered_to_lab", {"expected": date(2026, 11, 1)}, NOW),
        ("delivered_to_lab", {"expected": date.max}, datetime(9000, 1, 2, 10, tzinfo=UTC)),
        ("partial_results", {"expected": date(2026, 11, 24)}, NOW + timedelta(days=7)),
        # NOW is a Friday: two working days end on Tuesday.
        ("requisition_created", {}, NOW + timedelta(days=4)),
        ("requisition_bypassed", {}, NOW + timedelta(days=4)),
        ("appointment_scheduled", {}, None),
        ("lost", {}, NOW),
        ("", {}, None),
    ],
)  # fmt: skip
def test_fixed_times_follow_the_table(
    status: str, more: dict[str, date], expected_time: datetime | None
) -> None:
    assert limits.quiet_at(status, "testkit", "north", NOW, **more) == expected_time


def test_missing_start_gives_no_due_time() -> None:
    assert limits.quiet_at("lost", "testkit", None, None) is None


def test_working_time_is_correct_from_every_hour_of_week() -> None:
    monday = datetime(2026, 11, 16, tzinfo=UTC)
    for hours in range(0, 7 * 24, 5):
        since = monday + timedelta(hours=hours, minutes=17)
        found = limits.add_working_time(since, 48 * HOUR)
        assert found == add_working_hours(since, 48), since


def test_learned_times_are_whole_hours_and_never_zero() -> None:
    """A step that orders leave immediately is not late at once: zero is not a time to wait."""
    limits.use_measurements(usual_times("ordered", 0))
    assert limits.quiet_at("ordered", "testkit", None, NOW) == NOW + HOUR
    limits.use_measurements(usual_times("ordered", 49 * 3600))
    assert limits.quiet_at("ordered", "testkit", None, NOW) == NOW + 3 * 24 * HOUR
    # Times of manual steps are never learned, because slow work here is no excuse.
    limits.use_measurements(usual_times("lost", 40 * 3600))
    assert limits.quiet_at("lost", "testkit", None, NOW) == NOW


@pytest.mark.django_db
def test_booked_visit_is_due_hours_after_its_start() -> None:
    row = order(1, method="at_home_phlebotomy", low_level_status="appointment_scheduled",
                bucket="on-the-way", last_event_at=NOW - timedelta(days=30))  # fmt: skip
    row.save()
    start = NOW + timedelta(days=2)
    for number, superseded in ((1, NOW), (2, None)):
        Appointment(id=uid("visit", number), order_id=row.pk, type="phlebotomy", provider="p",
                    status="confirmed", event_status="scheduled", superseded_at=superseded,
                    start_at=start + timedelta(days=number), **envelope()).save()  # fmt: skip
    measurement.update_open_orders()
    row.refresh_from_db()
    assert row.quiet_at == start + timedelta(days=2, hours=6)
    measurement.update_booked_orders({row.pk: None})
    row.refresh_from_db()
    assert row.quiet_at is None
    Order.objects.filter(pk=row.pk).update(low_level_status="draw_completed", quiet_at=NOW)
    measurement.update_booked_orders({row.pk: start})
    row.refresh_from_db()
    assert row.quiet_at == NOW, "the order no longer waits for the visit"


@pytest.mark.django_db
def test_measurement_reads_only_latest_changed_orders() -> None:
    seed()
    assert measurement.measure(NOW, max_orders=20)
    newest = Order.objects.order_by("-updated_at")[:20].values("pk")
    newest_events = OrderEvent.objects.filter(order_id__in=newest)
    pairs = newest_events.count() - newest_events.values("order_id").distinct().count()
    assert sum(UsualTime.objects.values_list("samples", flat=True)) == pairs


@pytest.mark.django_db
def test_times_are_measured_once_an_hour() -> None:
    seed()
    assert measurement.measure_when_due(NOW) is not None
    assert measurement.measure_when_due(NOW + timedelta(minutes=59)) is None
    assert measurement.measure_when_due(NOW + timedelta(minutes=61)) == 0


@pytest.mark.django_db
def test_due_times_are_updated_in_batches() -> None:
    seed()
    measurement.measure(NOW)
    measurement.update_open_orders(batch_size=7)
    learned = step_durations()
    expected_time = {row.pk: expected_moment(row, learned) for row in Order.objects.all()}
    assert dict(Order.objects.values_list("pk", "quiet_at")) == expected_time


@pytest.mark.django_db(transaction=True)
def test_one_process_measures_and_skips_locked_orders() -> None:
    Order.objects.bulk_create(
        [
            order(n, low_level_status="lost", bucket="needs-action", last_event_at=NOW)
            for n in (1, 2)
        ]
    )
    is_locked, done = threading.Event(), threading.Event()

    def hold_locks() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [measurement._LOCK])
            list(Order.objects.select_for_update().filter(pk=uid("order", 1)))
            is_locked.set()
            done.wait(20)
        connection.close()

    thread = threading.Thread(target=hold_locks)
    thread.start()
    try:
        assert is_locked.wait(20)
        assert measurement.measure(NOW) is False
        assert measurement.update_open_orders() == 1
        assert Order.objects.get(pk=uid("order", 1)).quiet_at is None
    finally:
        done.set()
        thread.join()
    assert measurement.update_open_orders() == 1


def test_sync_queries_measurements_once_a_minute(
    django_assert_num_queries: object, db: None
) -> None:
    limits.expire_cache()
    with django_assert_num_queries(1):  # type: ignore[operator]
        limits.refresh()
        limits.refresh()
    records = [order_record(n) for n in range(1, 30)]
    assert all(
        isinstance(record, MirrorRecord) and ORDERS.promote(record)["quiet_at"]
        for record in records
    )
    assert ORDERS.promote(records[0])["quiet_at"] == minutes(1) + 8 * HOUR


@pytest.mark.django_db
def test_next_actor_needs_no_query(django_assert_num_queries: object) -> None:
    now = datetime.now(UTC)
    late = order(1, method="testkit", low_level_status="with_customer", bucket="with-patient",
                 last_event_at=now - timedelta(days=9, minutes=1),
                 quiet_at=now - timedelta(days=3, minutes=1))  # fmt: skip
    orders = {
        "late": late,
        "for us": order(
            8,
            low_level_status="lost",
            bucket="needs-action",
            last_event_at=now - timedelta(days=9),
            quiet_at=now - timedelta(days=9),
        ),
        "to come": order(2, last_event_at=now - timedelta(hours=5), quiet_at=now + HOUR),
        "never": order(3, low_level_status="completed", last_event_at=now, quiet_at=None),
        "closed": order(4, low_level_status="cancelled", last_event_at=now, quiet_at=None),
        "unknown": order(5, low_level_status="teleported", last_event_at=now, quiet_at=None),
        "no event": order(6, low_level_status="", last_event_at=None, quiet_at=None),
        "sent back": order(
            7,
            low_level_status="requisition_created",
            method="testkit",
            bucket="with-patient",
            last_event_at=now,
            quiet_at=None,
        ),
    }
    with django_assert_num_queries(0):  # type: ignore[operator]
        rows = {
            name: render_macro("orders/_next_actor.html", "next_actor", next_actor(row, now))
            for name, row in orders.items()
        }
    assert "Patient · 9 d" in rows["late"] and "3 d overdue" in rows["late"]
    assert 'title="Usually 6 days"' in rows["late"]
    assert "Clinic · 9 d" in rows["for us"] and "overdue</span>" not in rows["for us"]
    assert "Lab · 5 h" in rows["to come"] and "overdue" not in rows["to come"]
    assert "Clinic · 0 min" in rows["never"] and "overdue</span>" not in rows["never"]
    assert "not given" in rows["closed"]
    assert "Patient · 0 min" in rows["sent back"], "the requisition came after the kit"
    assert "Unknown" in rows["unknown"] and "Unknown" in rows["no event"]


@pytest.mark.parametrize(
    ("status", "samples", "sentence"),
    [
        ("with_customer", 30, "Kit has been with the patient 9 days (usually 6). 3 days overdue."
         " Waiting on the patient."),
        ("with_customer", 29, "Kit has been with the patient 9 days (usually 7). 2 days overdue."
         " Waiting on the patient."),
        ("teleported", 0, "teleported for 9 days. No usual time yet."),
        ("lost", 0, "Lost, 9 days ago. Waiting on the clinic."),
        ("cancelled", 0, "Canceled. Nothing left to do."),
        ("delivered_to_lab", 40, "Lab has had the sample for 9 days (usually 6)."
         " 3 days overdue. Waiting on the lab."),
    ],
)  # fmt: skip
def test_turn_sentence_compares_with_usual_time(status: str, samples: int, sentence: str) -> None:
    measured = usual_times(status, 6 * 86_400, samples)
    limits.use_measurements(measured)
    row = order(1, method="testkit", low_level_status=status,
                last_event_at=NOW - timedelta(days=9))  # fmt: skip
    assert current_step(row, [], NOW, measured[0]).sentence == sentence


def test_future_activation_date_is_not_late() -> None:
    row = order(1, method="testkit", low_level_status="ordered", activate_by=date(2026, 12, 1),
                last_event_at=NOW - timedelta(days=9))  # fmt: skip
    turn = current_step(row, [], NOW)
    assert turn.overdue_by is None and "over" not in turn.sentence
