"""P20: six events of an order, in all 720 orders of arrival, with and without repeats."""

from __future__ import annotations

import json
import random
from itertools import permutations, zip_longest
from typing import Any
from uuid import UUID

import pytest

from orders.models import Order, OrderEvent
from tests.webhooks.records import order, order_id
from tests.webhooks.rows import event
from webhooks import apply_events
from webhooks.models import Event

pytestmark = pytest.mark.usefixtures("inbox")

REPEATED: tuple[tuple[int, ...], ...] = ((), (0, 2, 4), (0, 1, 2, 3, 4, 5))
"""Which of the events come a second time, as messages of their own."""


def story(number: int) -> list[dict[str, Any]]:
    """Six versions of an order. Each tells only its last two steps: the history needs them all."""
    orders = [order(number, steps, notes=f"after {steps}") for steps in range(1, 7)]
    return [{**one, "events": one["events"][-2:]} for one in orders]


def test_any_order_of_arrival_gives_same_result() -> None:
    chance = random.Random(20)
    arrivals: list[list[int]] = []
    for permutation in permutations(range(6)):
        for repeated in REPEATED:
            arrival = list(permutation)
            for again in repeated:
                arrival.insert(chance.randrange(len(arrival) + 1), again)
            arrivals.append(arrival)
    assert len(arrivals) == 720 * 3
    stories = [story(number) for number in range(len(arrivals))]
    # One order each. Half of them one event per batch, half with all events side by side.
    apart, together = list(enumerate(arrivals))[0::2], list(enumerate(arrivals))[1::2]
    sequence = [(number, which) for number, arrival in together for which in arrival]
    for at_once in zip_longest(*(arrival for _, arrival in apart)):
        sequence += [
            (number, which)
            for (number, _), which in zip(apart, at_once, strict=True)
            if which is not None
        ]
    for start in range(0, len(sequence), 5_000):
        Event.objects.bulk_create(
            event("labtest.order.updated", stories[number][which])
            for number, which in sequence[start : start + 5_000]
        )
    assert apply_events.drain() == len(sequence)
    assert set(Event.objects.values_list("state", flat=True)) == {"done"}

    records = dict(Order.objects.values_list("pk", "record"))
    assert len(records) == len(arrivals)
    for number, versions in enumerate(stories):
        assert json.loads(records[_key(number)]) == versions[5]
    steps = set(OrderEvent.objects.values_list("order_id", "event_id", "status"))
    assert steps == {
        (_key(number), step["id"], step["status"])
        for number, versions in enumerate(stories)
        for version in versions
        for step in version["events"]
    }
    columns = Order.objects.values_list("low_level_status", "bucket", "last_status", "updated_at")
    assert columns.distinct().count() == 1


def _key(number: int) -> UUID:
    return UUID(order_id(number))
