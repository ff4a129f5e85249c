"""Read a page of the list of orders, and their number."""

from __future__ import annotations

from typing import Any, Final

from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page, PagePosition
from orders.models import Order
from orders.order_list.definition import ORDER_LIST
from orders.today.counts import OrderCounts, order_counts

COUNTED_FILTERS: Final = frozenset({"status", "order_type"})
"""Filters for which triggers keep counts, besides the bucket."""


def known_counts(form: Any) -> OrderCounts | None:
    """Return the counts kept by triggers if only filters on the state are active, else None."""
    active_names = {name for name in form.filter_names() if form.cleaned_data.get(name)}
    return order_counts() if active_names <= COUNTED_FILTERS else None


def count_and_page(
    form: Any, size: int, place: PagePosition, known: OrderCounts | None
) -> tuple[Count, Page[Order]]:
    """Return how many orders match a valid form, and a page of them.

    `known`: the answer of `known_counts`.
    """
    filters = form.cleaned_data
    number = None
    if known is not None:
        number = known.count(
            bucket=filters["bucket"], statuses=filters["status"], methods=filters["order_type"]
        )
    return ORDER_LIST.count_and_page(form, form.user, size, place, number)
