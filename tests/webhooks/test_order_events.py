"""Order, appointment, critical result and connection events, and what they leave behind."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from backoffice.mirror.models import Drift
from backoffice.service import Record
from backoffice.service import orders as service_orders
from backoffice.service.events import ReceivedEvent
from backoffice.sync.models import Lookup
from orders.handlers import handle_orders
from orders.models import Appointment, CriticalAnnouncement, Order, OrderEvent
from orders.sync import store_orders
from tests.webhooks.other_worker import elsewhere
from tests.webhooks.records import TEAM, USER, at, order, order_id
from tests.webhooks.rows import put
from webhooks import apply_events
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def drained(*events: Event) -> list[str]:
    apply_events.drain()
    for event in events:
        event.refresh_from_db()
        assert event.state == "done", (event.reason, event.path)
    return [event.outcome for event in events]


def updated(number: int, steps: int, **changed: Any) -> Event:
    return put("labtest.order.updated", order(number, steps, **changed))


def marked(kind: str) -> set[str]:
    return set(Lookup.objects.filter(kind=kind).values_list("key", flat=True))


def received_order(record: dict[str, Any]) -> ReceivedEvent:
    data = json.dumps(record).encode()
    name = f"m{record['notes']}{record['updated_at']}"
    return ReceivedEvent(
        1, name, "labtest.order.updated", datetime.now(UTC), None, None, None, data
    )


def test_older_event_is_stale_in_same_or_later_batch() -> None:
    assert drained(updated(1, 3)) == ["applied"]
    assert drained(updated(1, 2)) == ["stale"]
    assert drained(updated(2, 3), updated(2, 4), updated(2, 1)) == ["stale", "applied", "stale"]
    assert Order.objects.get(pk=order_id(1)).low_level_status == "appointment_pending"
    assert Order.objects.get(pk=order_id(2)).low_level_status == "appointment_scheduled"
    assert not marked("orders")


def test_older_event_completes_the_history() -> None:
    whole = order(1, 4)
    drained(updated(1, 4, events=whole["events"][3:]))
    assert OrderEvent.objects.count() == 1
    assert drained(updated(1, 3)) == ["stale"]
    assert OrderEvent.objects.count() == 4


@pytest.mark.parametrize("together", [False, True])
def test_older_event_contradicting_history_is_drift(together: bool) -> None:
    steps = order(1, 3)["events"]
    steps[0]["status"] = "received.walk_in_test.rewritten"
    if together:
        assert drained(updated(1, 3, events=steps), updated(1, 4)) == ["stale", "applied"]
    else:
        assert drained(updated(1, 4)) == ["applied"]
        assert drained(updated(1, 3, events=steps)) == ["stale"]
    drift = Drift.objects.get()
    assert (drift.kind, drift.key) == ("history_conflict", f"{order_id(1)}:100")
    assert OrderEvent.objects.get(event_id=100).low_level_status == "ordered"
    assert OrderEvent.objects.count() == 4


def test_equal_event_is_unchanged() -> None:
    assert drained(updated(1, 2)) == ["applied"]
    before = Order.objects.values_list("as_of", flat=True).get()
    assert drained(updated(1, 2)) == ["unchanged"]
    assert Order.objects.values_list("as_of", flat=True).get() == before
    assert not marked("orders")


def test_two_contents_of_one_version_cause_a_lookup() -> None:
    assert drained(updated(1, 2)) == ["applied"]
    assert drained(updated(1, 2, notes="other")) == ["looked up"]
    assert marked("orders") == {order_id(1)}
    assert "other" not in Order.objects.get().record
    assert drained(updated(2, 2), updated(2, 2, notes="other")) == ["looked up", "looked up"]
    assert marked("orders") == {order_id(1), order_id(2)}


@pytest.mark.parametrize(
    "less",
    [
        {"updated_at": None},
        {"updated_at": (datetime.now(UTC) + timedelta(days=365)).isoformat()},
        {"user_id": None},
        {"events": None},
    ],
)
def test_partial_order_and_future_version_cause_lookup(
    less: dict[str, Any],
) -> None:
    assert drained(updated(1, 2, **less)) == ["looked up"]
    assert drained(put("labtest.order.updated", {"id": order_id(2)})) == ["looked up"]
    assert marked("orders") == {order_id(1), order_id(2)}
    assert not Order.objects.exists()


def test_future_answer_does_not_block_later_versions() -> None:
    """What is heard later wins over it; the service is asked again, as no version decided."""
    year = (datetime.now(UTC) + timedelta(days=365)).isoformat()
    record = service_orders.ORDER.read(
        json.dumps(order(1, 2, updated_at=year)).encode(), datetime.now(UTC)
    )
    assert isinstance(record, Record)
    store_orders([record])
    before = datetime.now(UTC) - timedelta(minutes=1)
    early = put("labtest.order.updated", order(1, 6), received_at=before)
    assert drained(early) == ["stale"]
    assert drained(updated(1, 5)) == ["applied"]
    stored = Order.objects.get()
    assert (stored.low_level_status, stored.updated_at.year) == ("partial_results", 2026)
    assert marked("orders") == {order_id(1)}
    assert drained(updated(1, 3)) == ["stale"]


def test_future_critical_result_hides_no_later_one() -> None:
    year = (datetime.now(UTC) + timedelta(days=365)).isoformat()
    drained(put("labtest.result.critical", critical(1, 5, updated_at=year)))
    later = [critical(1, 90, status="corrected"), critical(1, 5, updated_at=year)]
    drained(*(put("labtest.result.critical", one) for one in later))
    assert CriticalAnnouncement.objects.get().status == "corrected"
    drained(put("labtest.result.critical", critical(1, 5, updated_at=year)))
    assert CriticalAnnouncement.objects.get().status == "corrected"


def test_version_slightly_ahead_is_applied() -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    assert drained(updated(1, 2, updated_at=soon)) == ["applied"]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_unrepresentable_times_are_not_applied(moment: str) -> None:
    """Only the moment is lost where the record can do without it; else the event is dead. What was
    known of the order can still be read."""
    drained(updated(1, 2), put("labtest.result.critical", critical(2, 5)))
    step = {**order(1, 1)["events"][0], "created_at": moment}
    partly = [
        updated(1, 4, events=[step, *order(1, 4)["events"][1:]]),
        updated(1, 4, last_event={**step, "id": 900}),
    ]
    bad = [
        updated(6, 4, created_at=moment),
        put("labtest.result.critical", critical(2, 9, created_at=moment)),
        put("labtest.result.critical", critical(3, 9, updated_at=moment)),
        # Older than what is known: only its history counts.
        updated(1, 1, events=[{**step, "id": 901}]),
    ]
    good = updated(5, 1)
    apply_events.drain()
    assert Event.objects.get(pk=good.pk).outcome == "applied"
    for event in partly:
        event.refresh_from_db()
        assert (event.state, event.outcome) == ("done", "applied"), event.reason
    for event in bad:
        event.refresh_from_db()
        assert (event.state, event.outcome) == ("retry", "failed"), event.reason
    assert [row.updated_at.year for row in Order.objects.all()] == [2026, 2026]
    assert {step.created_at.year for step in OrderEvent.objects.all()} == {2026}
    assert [str(row.pk) for row in CriticalAnnouncement.objects.all()] == [order_id(2)]


def test_unknown_vocabulary_is_stored_as_sent() -> None:
    event = {"id": 7, "created_at": at(0), "status": "orbiting.by_drone.in_orbit"}
    drained(updated(1, 1, events=[event], last_event=event, status="orbiting", origin="cloned"))
    stored = Order.objects.get()
    assert (stored.low_level_status, stored.bucket, stored.origin) == (
        "in_orbit",
        "unknown",
        "cloned",
    )


def test_unknown_redraw_causes_a_lookup() -> None:
    group = {
        "id": order_id(500),
        "status": "active",
        "orders": [
            {"id": order_id(1), "origin": "initial"},
            {"id": order_id(2), "origin": "redraw", "parent_id": order_id(1)},
        ],
    }
    drained(updated(1, 5, order_transaction=group))
    assert marked("orders") == {order_id(2)}
    assert str(Order.objects.get().order_transaction_id) == order_id(500)


def test_order_of_unknown_user_causes_user_lookup() -> None:
    drained(updated(1, 1))
    assert marked("users") == {USER}


def appointment(number: int, **changed: Any) -> dict[str, Any]:
    whole = {
        "id": order_id(number + 700),
        "user_id": USER,
        "order_id": order_id(number),
        "type": "phlebotomy",
        "status": "confirmed",
        "event_status": "scheduled",
    }
    return {**whole, **changed}


def test_appointment_event_only_causes_a_lookup() -> None:
    event = put("labtest.appointment.updated", appointment(1))
    assert drained(event) == ["looked up"]
    assert not Appointment.objects.exists()
    assert marked("appointment-phlebotomy") == {order_id(1)} == marked("orders")
    drained(put("labtest.appointment.created", appointment(2, type="patient_service_center")))
    assert marked("appointment-psc") == {order_id(2)}
    drained(put("labtest.appointment.created", appointment(3, type="by_drone")))
    assert order_id(3) in marked("appointment-psc") & marked("appointment-phlebotomy")


def test_many_appointment_events_cause_one_lookup() -> None:
    drained(*(put("labtest.appointment.updated", appointment(1)) for _ in range(1_000)))
    lookups = Lookup.objects.filter(kind__startswith="appointment-")
    assert [row.key for row in lookups] == [order_id(1)]
    assert Lookup.objects.filter(kind="orders").count() == 1


def test_reopened_order_returns_to_earlier_status() -> None:
    """No state is final: the service corrects and reinstates."""
    assert drained(updated(1, 6)) == ["applied"]
    before = Order.objects.get()
    again = order(1, 4)["events"][3] | {"id": 900, "created_at": at(500)}
    steps = [*order(1, 6)["events"], again]
    back = updated(1, 6, events=steps, last_event=again, updated_at=at(500), status="collecting")
    assert drained(back) == ["applied"]
    after = Order.objects.get()
    assert (before.low_level_status, before.bucket) == ("completed", "result-in")
    assert after.low_level_status == "appointment_scheduled" and after.bucket != before.bucket
    assert OrderEvent.objects.count() == 7
    drift = Drift.objects.get()
    assert (drift.kind, drift.key) == ("regressed", order_id(1))
    assert drift.detail == "from completed to appointment_scheduled"


def test_forward_steps_and_decisions_are_not_reopening() -> None:
    drained(updated(1, 4))
    drained(updated(1, 6))
    Order.objects.update(bucket="at-lab")
    assert not Drift.objects.exists()


def critical(number: int, minutes: int, **changed: Any) -> dict[str, Any]:
    whole = {
        "order_id": order_id(number),
        "sample_id": "S-1",
        "status": "partial",
        "interpretation": "critical",
        "team_id": TEAM,
        "user_id": USER,
        "created_at": at(0),
        "updated_at": at(minutes),
    }
    return {**whole, **changed}


def test_critical_result_is_stored_and_newest_wins() -> None:
    late = put("labtest.result.critical", critical(1, 60, status="final"))
    assert drained(late) == ["applied"]
    assert drained(put("labtest.result.critical", critical(1, 5))) == ["stale"]
    row = CriticalAnnouncement.objects.get()
    assert (row.status, row.message_id) == ("final", late.message_id)
    assert marked("results") == {order_id(1)} == marked("orders")
    drained(put("labtest.result.critical", critical(1, 90, status="corrected")))
    row.refresh_from_db()
    assert (row.status, row.first_heard_at) == ("corrected", late.received_at)


def test_two_critical_results_in_one_batch_keep_newest() -> None:
    events = [put("labtest.result.critical", critical(1, minutes)) for minutes in (30, 10)]
    assert drained(*events) == ["applied", "stale"]
    assert CriticalAnnouncement.objects.get().message_id == events[0].message_id


@pytest.mark.parametrize(
    ("event_type", "data"),
    [
        ("provider.connection.created", {"provider": 7, "resource_availability": ["steps"]}),
        ("provider.connection.error", {"provider": {"slug": "a"}, "error_type": ["unknown"]}),
        ("provider.connection.error", {}),
        ("provider.device.created", {"id": {}, "provider": []}),
    ],
)
def test_unread_fields_of_source_events_may_have_any_value(
    event_type: str, data: dict[str, Any]
) -> None:
    assert drained(put(event_type, data)) == ["looked up"]
    assert marked("connections") == {USER}


def test_critical_result_without_user_or_version() -> None:
    bare = {"order_id": order_id(1)}
    event = {"event_type": "labtest.result.critical", "data": bare}
    assert drained(put("labtest.result.critical", json.dumps(event).encode())) == ["applied"]
    stored = CriticalAnnouncement.objects.get()
    assert (stored.user_id, stored.updated_at, stored.sample_id) == (None, None, None)


def test_connection_and_device_events_cause_lookups() -> None:
    provider = {"name": "A", "slug": "a", "logo": ""}
    created = put("provider.connection.created", {"user_id": USER, "provider": provider})
    broken = put("provider.connection.error", {"provider": "a", "error_type": "unknown"})
    device = put("provider.device.created", {"id": order_id(1), "user_id": order_id(77)})
    assert drained(created, broken, device) == ["looked up"] * 3
    assert marked("connections") == {USER, order_id(77)} == marked("users")


def rivals(first_told: ReceivedEvent, second_told: ReceivedEvent) -> dict[str, str]:
    """Two workers with an event each: the second begins while the first has not committed."""
    with elsewhere(lambda: handle_orders([first_told]), 0.5), transaction.atomic():
        outcomes = handle_orders([second_told])
    return dict(outcomes)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("later", [-1, 1])
def test_concurrent_contents_of_one_version_cause_lookup(known: bool, later: int) -> None:
    """Whichever of them stays, whether the order was known or not."""
    if known:
        handle_orders([received_order(order(1, 2))])
    one, other = received_order(order(1, 3, notes="a")), received_order(order(1, 3, notes="b"))
    other = replace(other, received_at=one.received_at + timedelta(seconds=later))
    assert list(rivals(one, other).values()) == ["looked up"]
    assert marked("orders") == {order_id(1)}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("known", [False, True])
def test_concurrent_equal_or_newer_version_causes_no_lookup(known: bool) -> None:
    if known:
        handle_orders([received_order(order(1, 2))])
    one = received_order(order(1, 3))
    earlier = replace(one, received_at=one.received_at - timedelta(seconds=1))
    assert set(rivals(one, earlier).values()) <= {"stale", "unchanged"}
    rivals(one, received_order(order(1, 4)))
    assert Order.objects.get().low_level_status == "appointment_scheduled"
    assert not marked("orders")
