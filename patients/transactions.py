"""Orders of a patient, grouped by transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict
from uuid import UUID

if TYPE_CHECKING:
    # Only for types: the orders app imports this one.
    from orders.models import Order, Transaction


class TransactionGroup(TypedDict):
    """A transaction and its orders, oldest first; an order without a transaction is alone."""

    transaction: Transaction | None
    orders: list[Order]


def group_by_transaction(orders: Iterable[Order]) -> list[TransactionGroup]:
    """Group orders, which come newest first, by transaction: newest group first."""
    groups: dict[UUID, list[Order]] = {}
    for order in orders:
        groups.setdefault(order.order_transaction_id or order.pk, []).append(order)
    return [
        {"transaction": members[0].order_transaction, "orders": members[::-1]}
        for members in groups.values()
    ]
