"""Two workers at the same orders, and a repeat of an event that is being applied."""

from __future__ import annotations

import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connections, transaction

from backoffice.service.events import ReceivedEvent
from orders.handlers import handle_orders
from orders.models import Order, OrderEvent
from tests.webhooks.other_worker import elsewhere
from tests.webhooks.records import order, order_id
from tests.webhooks.rows import put
from tests.webhooks.signed import Message, message
from webhooks import apply_events
from webhooks.models import Event
from webhooks.receiving import receive

pytestmark = pytest.mark.usefixtures("inbox")


def received_order(record: dict[str, Any]) -> ReceivedEvent:
    data = json.dumps(record).encode()
    now = datetime.now(UTC)
    return ReceivedEvent(
        1, f"m{record['updated_at']}", "labtest.order.updated", now, None, None, None, data
    )


def test_older_of_two_concurrent_events_completes_history() -> None:
    newer, older = order(1, 5), order(1, 3)
    newer["events"] = newer["events"][-2:]
    with elsewhere(lambda: handle_orders([received_order(newer)]), 0.5), transaction.atomic():
        outcomes = handle_orders([received_order(older)])
    assert list(outcomes.values()) == ["stale"]
    assert Order.objects.get().low_level_status == "partial_results"
    assert OrderEvent.objects.count() == 5


@pytest.mark.parametrize("named", [True, False])
def test_two_drains_share_work_and_lose_nothing(named: bool) -> None:
    for number in range(1_500):
        subject = order_id(number % 50) if named else ""
        put("labtest.order.updated", order(number % 50, 1 + number % 6), subject_id=subject)

    def work(_: int) -> int:
        try:
            return apply_events.drain()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(work, range(2))) == 1_500
    assert set(Event.objects.values_list("state", flat=True)) == {"done"}
    newest_step = {number: max(1 + n % 6 for n in range(number, 1_500, 50)) for number in range(50)}
    stored_step = {
        int(str(pk)[-12:]): last % 100 + 1
        for pk, last in Order.objects.values_list("pk", "last_event_id")
    }
    assert stored_step == newest_step


def claim() -> None:
    assert apply_events._claim_batch()


def test_events_of_locked_subjects_are_left_for_later() -> None:
    put("labtest.order.created", order(1, 1), subject_id=order_id(1))
    with elsewhere(claim):
        left = put("labtest.order.updated", order(1, 2), subject_id=order_id(1))
        other = put("labtest.order.created", order(2, 1), subject_id=order_id(2))
        unnamed = put("labtest.order.created", order(3, 1))
        assert apply_events.drain(seconds=0) == 2
    done = Event.objects.filter(state="done")
    assert {event.pk for event in done} == {other.pk, unnamed.pk}
    assert apply_events.drain() == 2
    assert done.filter(pk=left.pk).exists()
    assert Order.objects.get(pk=order_id(1)).low_level_status == "requisition_created"


def test_worker_waits_if_all_subjects_are_locked() -> None:
    put("labtest.order.created", order(1, 1), subject_id=order_id(1))
    put("labtest.order.created", order(2, 1), subject_id=order_id(2))
    drained: list[int] = []

    def drain() -> None:
        try:
            drained.append(apply_events.drain())
        finally:
            connections.close_all()

    thread = threading.Thread(target=drain)
    with elsewhere(claim):
        for number in (2, 1):
            put("labtest.order.updated", order(number, 2), subject_id=order_id(number))
        thread.start()
        thread.join(0.5)
        assert thread.is_alive() and not drained
    thread.join(10)
    assert drained == [4], "its own two, and then those that the other one gave back"
    assert set(Event.objects.values_list("state", flat=True)) == {"done"}


def delivered(sent: Message) -> int:
    return receive(sent.headers(), io.BytesIO(sent.body).read).status


def test_hundred_concurrent_deliveries_store_one_event() -> None:
    sent = message("labtest.order.created", order(1, 1))

    def deliver(_: int) -> int:
        try:
            return delivered(sent)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(deliver, range(100))) == {204}
    event = Event.objects.get()
    assert 90 <= event.deliveries <= 100 and not event.body_conflict
    assert apply_events.drain() == 1
    assert OrderEvent.objects.count() == 1


def test_repeat_does_not_wait_for_applying_worker() -> None:
    sent = message("labtest.order.created", order(1, 1))
    assert delivered(sent) == 204
    with elsewhere(lambda: Event.objects.select_for_update().get()):
        begun = time.monotonic()
        assert delivered(sent) == 204
        assert time.monotonic() - begun < 5, "it is held for ten"
