"""The drain: batches, poison, retries, and what is never applied."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now

from backoffice.core.models import UnknownValue
from backoffice.sync.models import Lookup
from orders.models import Order
from patients.models import Patient
from tests.webhooks.records import TEAM, order, order_id
from tests.webhooks.rows import know_our_team, put
from webhooks import apply_events
from webhooks.models import Event

pytestmark = pytest.mark.django_db


def test_it_works() -> None:
    event = put("labtest.order.created", order(1, 2))
    assert apply_events.drain() == 1
    event.refresh_from_db()
    assert (event.state, event.outcome, event.attempts) == ("done", "applied", 0)
    assert event.applied_at is not None
    assert Order.objects.get().low_level_status == "requisition_created"
    assert apply_events.drain() == 0


def test_drain_applies_more_events_than_one_batch() -> None:
    for number in range(apply_events.BATCH + 30):
        put("labtest.order.created", order(number, 1))
    assert apply_events.drain() == apply_events.BATCH + 30
    assert Order.objects.count() == apply_events.BATCH + 30


def test_batch_ends_when_bodies_exceed_byte_limit() -> None:
    for number in range(7):
        put("labtest.order.created", order(number, 1, notes="n" * 5_000))
    assert apply_events.drain(seconds=0, batch_bytes=2_000) == 1
    assert apply_events.drain(batch_bytes=2_000) == 6


@pytest.mark.parametrize("position", [0, 57, 99])
def test_invalid_event_fails_without_its_batch(position: int) -> None:
    poison = {**order(7, 2), "updated_at": "yesterday"}
    events = [
        put("labtest.order.created", poison if number == position else order(number + 10, 1))
        for number in range(100)
    ]
    assert apply_events.drain() == 100
    assert Order.objects.count() == 99
    bad = events[position]
    bad.refresh_from_db()
    assert (bad.state, bad.outcome, bad.attempts) == ("retry", "failed", 1)
    assert bad.path == "$.data.updated_at" and "datetime" in bad.reason
    assert timedelta(seconds=40) < bad.due_at - datetime.now(UTC) < timedelta(seconds=80)
    assert apply_events.drain() == 0, "it is not due yet"
    Event.objects.update(due_at=Now())
    apply_events.drain()
    bad.refresh_from_db()
    assert (bad.state, bad.attempts) == ("dead", 2)
    Event.objects.update(due_at=Now())
    assert apply_events.drain() == 0, "the dead wait for a person"


INVALID_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"status": "x\x00y"}, "applied"),
    ({"notes": 10**30}, "applied"),
    (
        {"events": [{"id": 10**19, "created_at": "2026-01-01T00:00:00Z", "status": "a.b.c"}]},
        "applied",
    ),
    ({"events": "none"}, "looked up"),
    ({"lab_test": {"name": ["x"]}}, "looked up"),
    ({"patient_details": {"first_name": "\x00"}}, "applied"),
    ({"sample_id": "s" * 1_000_000}, "failed"),
]
"""Invalid fields of an order, and what becomes of its event."""


@pytest.mark.parametrize(
    ("changed", "outcome"), INVALID_FIELDS, ids=[" ".join(one[0]) for one in INVALID_FIELDS]
)
def test_event_with_invalid_field_holds_up_no_other(changed: dict[str, Any], outcome: str) -> None:
    bad = put("labtest.order.updated", order(1, 2, **changed))
    put("labtest.order.updated", order(2, 2))
    for _ in range(3):
        apply_events.drain()
        Event.objects.update(due_at=Now())
    bad.refresh_from_db()
    assert (bad.outcome, bad.state) == (outcome, "dead" if outcome == "failed" else "done")
    assert bool(bad.reason) is (outcome == "failed")
    assert Order.objects.filter(pk=order_id(2)).exists()
    assert Order.objects.filter(pk=order_id(1)).exists() is (outcome == "applied")
    lookups = Lookup.objects.filter(kind="orders", key=order_id(1))
    assert lookups.exists() is (outcome == "looked up")


def test_unknown_type_is_skipped_and_counted() -> None:
    for _ in range(3):
        put("labtest.teleport.completed", {"id": order_id(1)})
    apply_events.drain()
    assert set(Event.objects.values_list("state", "outcome")) == {("skipped", "unknown type")}
    seen = UnknownValue.objects.get(vocabulary="event_type")
    assert (seen.value, seen.sightings) == ("labtest.teleport.completed", 3)


def test_unknown_fields_are_stored_and_change_nothing() -> None:
    more = {f"new_field_{number}": {"deep": [number, "x"]} for number in range(500)}
    less = order(2, 2)
    del less["last_event"], less["priority"], less["requisition_form_url"]
    put("labtest.order.created", order(1, 2, **more))
    put("labtest.order.created", less)
    apply_events.drain()
    assert set(Event.objects.values_list("state", "outcome")) == {("done", "applied")}
    first, second = Order.objects.order_by("pk")
    assert first.low_level_status == second.low_level_status == "requisition_created"
    assert json.loads(first.record)["new_field_499"] == {"deep": [499, "x"]}


@pytest.mark.django_db(transaction=True)
def test_killed_connection_repeats_only_one_batch() -> None:
    """The database ends the session of a worker that is writing: nothing of it stays, the event
    is not blamed, and the next round applies it."""
    put("labtest.order.created", order(1, 1))
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE only_once")
        cursor.execute(
            "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF nextval('only_once') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid());"
            " END IF; RETURN NEW; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER end_session BEFORE INSERT ON orders_order"
            " FOR EACH ROW EXECUTE FUNCTION end_session()"
        )
    try:
        with contextlib.suppress(OperationalError):
            apply_events.drain()
        connection.close()
        event = Event.objects.get()
        assert event.state == "pending" and event.attempts == 0, event.reason
        assert not Order.objects.exists()
        Event.objects.update(due_at=Now())
        apply_events.drain()
        assert Event.objects.get().state == "done" and Order.objects.count() == 1
    finally:
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION end_session() CASCADE; DROP SEQUENCE only_once")


FOREIGN = "7ea00000-0000-4000-8000-0000000000ff"


@pytest.mark.parametrize(
    "team_fields",
    [
        {"team_id": FOREIGN, "data": order(2, 1)},
        {"data": order(2, 1, team_id=FOREIGN)},
        {"team_id": TEAM, "data": order(2, 1, team_id=FOREIGN)},
    ],
)
def test_event_of_another_team_is_quarantined(team_fields: dict[str, Any]) -> None:
    body = {"event_type": "labtest.order.created", **team_fields}
    put("labtest.order.created", json.dumps(body).encode())
    put("labtest.order.created", order(1, 1))
    apply_events.drain()
    assert list(Event.objects.order_by("id").values_list("state", "outcome")) == [
        ("quarantined", "foreign team"),
        ("done", "applied"),
    ]


def test_event_waits_until_our_team_is_known() -> None:
    foreign = {"event_type": "labtest.order.created", "data": order(2, 1, team_id=FOREIGN)}
    put("labtest.order.created", json.dumps(foreign).encode())
    put("labtest.order.created", order(1, 1))
    put("teleport.done", {"id": "x"})
    nobodys = {"event_type": "continuous_query.result_table.changed", "data": {"id": "x"}}
    put("continuous_query.result_table.changed", json.dumps(nobodys).encode())
    Patient.objects.all().delete()
    assert apply_events.drain() == 4
    found = Event.objects.order_by("id").values_list("state", "outcome", "attempts")
    assert list(found) == [
        ("pending", "team not known yet", 0),
        ("pending", "team not known yet", 0),
        ("skipped", "unknown type", 0),
        ("done", "kept", 0),
    ]
    assert apply_events.drain() == 0, "not before half a minute has passed"
    assert not Order.objects.exists()
    know_our_team()
    Event.objects.update(due_at=Now())
    apply_events.drain()
    assert list(found.values_list("state", flat=True)[:2]) == ["quarantined", "done"]
    assert [str(found.pk) for found in Order.objects.all()] == [order_id(1)]


def test_values_refused_by_driver_count_as_data_errors() -> None:
    """No SQLSTATE: the database found nothing wrong. Such an event is not tried for hours."""
    put("labtest.order.created", order(1, 1))
    apply_events.drain()
    Event.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE orders_order SET updated_at = '0044-03-15T12:00:00Z BC'")
    bad = put("labtest.order.updated", order(1, 2))
    apply_events.drain()
    bad.refresh_from_db()
    assert (bad.state, bad.reason) == ("retry", "DataError")
    assert timedelta(seconds=40) < bad.due_at - datetime.now(UTC) < timedelta(seconds=80)
    Event.objects.update(due_at=Now())
    apply_events.drain()
    assert Event.objects.get().state == "dead"


@pytest.mark.parametrize(
    ("event_type", "outcome"),
    [
        ("continuous_query.result_table.changed", "kept"),
        ("daily.timeseries.hypnogram.created", "ignored"),
        ("historical.timeseries.hypnogram.created", "ignored"),
    ],
)
def test_known_types_without_handler_are_stored(event_type: str, outcome: str) -> None:
    put(event_type, [{"id": "x"}])
    apply_events.drain()
    assert Event.objects.values_list("state", "outcome").get() == ("done", outcome)


def test_event_with_deleted_body_fails() -> None:
    put("labtest.order.created", order(1, 1))
    Event.objects.update(body=None)
    apply_events.drain()
    event = Event.objects.get()
    assert event.state == "dead" and event.reason == "the body is no longer kept"


def test_invalid_body_is_dead_at_once() -> None:
    put("", b"[]")
    put("labtest.order.created", order(1, 1))
    apply_events.drain()
    assert list(Event.objects.order_by("id").values_list("state", flat=True)) == ["dead", "done"]


def test_unknown_state_is_not_touched() -> None:
    put("labtest.order.created", order(1, 1), state="parked")
    assert apply_events.drain() == 0
    assert Event.objects.get().state == "parked"
