"""Orders under way, for the pages of labs, which know nothing of orders."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django import template

from backoffice.core import vocabulary
from backoffice.models import CommandRecord
from backoffice.pages.paging.counts import Count, capped_count
from orders.commands import CreateOrder, ImportOrder
from orders.models import Order

register = template.Library()

ENDED_STATUSES: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)
UNDER_WAY: Final = [bucket for bucket in vocabulary.BUCKETS if bucket not in ENDED_STATUSES]


@register.simple_tag
def open_orders(lab_slug: str) -> Count:
    """Our orders under way at a lab. An order does not say under which account it was placed."""
    return capped_count(Order.objects.filter(bucket__in=UNDER_WAY, lab_slug=lab_slug))


@register.simple_tag
def pending_order_requests(account_id: UUID) -> int:
    """Requests to place or import an order under a lab account that are not settled yet: open ones
    are few."""
    kinds = (CreateOrder.kind, ImportOrder.kind)
    commands = CommandRecord.objects.open().filter(kind__in=kinds).only("payload")
    bodies = (row.payload.get("body", {}) for row in commands)  # Rows open what is sealed.
    return sum(body.get("lab_account_id") == str(account_id) for body in bodies)
