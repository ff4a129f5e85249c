"""Orders of a patient, grouped by transaction.

The orders app imports this one, so its model is not imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def group_by_transaction(orders: Iterable[Any]) -> list[dict[str, Any]]:
    """Group orders by transaction: newest group first, within a group oldest order first."""
    groups: dict[Any, list[Any]] = {}
    for order in orders:
        groups.setdefault(order.order_transaction_id or order.pk, []).append(order)
    return [
        {"transaction": members[0].order_transaction, "orders": members[::-1]}
        for members in groups.values()
    ]
