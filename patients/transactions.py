"""Orders of a patient by transaction. Orders are above this app: it takes them as they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def group_by_transaction(orders: Iterable[Any]) -> list[dict[str, Any]]:
    """Orders grouped by transaction, newest group first, first order of a group first."""
    groups: dict[Any, list[Any]] = {}
    for order in orders:
        groups.setdefault(order.order_transaction_id or order.pk, []).append(order)
    return [
        {"transaction": members[0].order_transaction, "orders": members[::-1]}
        for members in groups.values()
    ]
