"""Orders under way, for the pages of `labs`, which does not import `orders`."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from backoffice.core import vocabulary
from backoffice.outbox.models import CommandRecord
from backoffice.pages.paging.counts import Count, capped_count
from orders.commands import CreateOrder, ImportOrder
from orders.models import Order

ENDED_STATUSES: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)
UNDER_WAY: Final = [bucket for bucket in vocabulary.BUCKETS if bucket not in ENDED_STATUSES]


def open_orders(lab_slug: str) -> Count:
    """Return the number of orders under way at a lab. Orders do not have their lab account."""
    return capped_count(Order.objects.filter(bucket__in=UNDER_WAY, lab_slug=lab_slug))


def pending_order_requests(account_id: UUID) -> int:
    """Return the number of open commands that place or import an order under a lab account.

    Their payloads are read, because open commands are few.
    """
    kinds = (CreateOrder.kind, ImportOrder.kind)
    commands = CommandRecord.objects.open().filter(kind__in=kinds).only("payload")
    bodies = (row.payload.get("body", {}) for row in commands)  # Rows decrypt their payload.
    return sum(body.get("lab_account_id") == str(account_id) for body in bodies)
