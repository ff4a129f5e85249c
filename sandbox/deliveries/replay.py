"""Send the latest event of orders again (orders.md 11)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime

import orjson
from django.db.models import Exists, OuterRef

from sandbox import event_queue, records
from sandbox.event_queue import Event
from sandbox.models import Order, OrderEvent, Team

CHUNK = 500


def in_window(team: uuid.UUID, start: datetime, end: datetime) -> list[int]:
    """Numbers of the team's orders with an event from `start` to `end`, oldest first."""
    happened = OrderEvent.objects.filter(
        order_id=OuterRef("number"), created_at__gte=start, created_at__lte=end
    )
    found = Order.objects.filter(team_id=team, updated_at__gte=start).filter(Exists(happened))
    return list(found.order_by("number").values_list("number", flat=True))


def by_id(team: uuid.UUID, keys: Iterable[uuid.UUID]) -> list[int]:
    """Numbers of the team's orders among these."""
    found = Order.objects.filter(team_id=team, id__in=list(keys))
    return list(found.order_by("number").values_list("number", flat=True))


def replay(team: uuid.UUID, numbers: Sequence[int]) -> list[str]:
    """Announce the latest event of each order; return the ids of the announced orders."""
    if not event_queue.has_endpoints():
        return []
    partials = Team.objects.get(id=team).partial_webhooks_enabled
    documents = records.lab_documents()
    replayed = []
    for first in range(0, len(numbers), CHUNK):
        events = [
            latest_event(order, documents)
            for order in Order.objects.filter(number__in=numbers[first : first + CHUNK]).order_by(
                "number"
            )
            if partials or order.low_level_status != "partial_results"
        ]
        event_queue.announce_all([event for _, event in events])
        replayed += [key for key, _ in events]
    return replayed


def latest_event(order: Order, documents: dict[str, str]) -> tuple[str, Event]:
    """Return the order's id and the event with its present state."""
    record = records.served_order(
        order.id,
        order.fixed_part,
        order.moving_part,
        order.has_requisition,
        documents[str(order.lab_test_id)],
    )
    is_first = len(orjson.loads("{" + order.moving_part + "}")["events"]) == 1
    kind = "labtest.order.created" if is_first else "labtest.order.updated"
    data = orjson.Fragment(record)
    event = Event(kind, order.user_id, data, order.last_event_at, str(order.team_id))
    return str(order.id), event
