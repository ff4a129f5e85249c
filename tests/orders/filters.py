"""Filters of the list of orders, as an administrator uses them."""

from __future__ import annotations

from typing import Any

from backoffice.accounts.models import User
from orders.order_list.filters import OrderListFilterSet
from orders.order_list.order_list import ORDER_LIST
from tests.api.rows import staff


def order_filters(given: dict[str, Any]) -> OrderListFilterSet:
    """Return valid filters with these values."""
    user = User.objects.filter(username="administrator").first() or staff("administrator")
    filters = OrderListFilterSet(given, ORDER_LIST.visible_rows(user), user=user)
    assert filters.is_valid(), filters.errors
    return filters
