"""Paging of long lists: all pages together equal the result of one plain query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from backoffice.pages.paging.counts import COUNT_CAP
from backoffice.pages.paging.pages import Page, PagePosition
from orders.models import Order
from orders.order_list.filters import SORTS, OrderListFilterSet
from orders.order_list.order_list import ORDER_LIST
from tests.api.rows import order
from tests.orders.filters import order_filters

pytestmark = pytest.mark.django_db

START = datetime(2025, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UPDATED_AFTER = (0, 3, 29, 30, 31, 45, 200, 300, 400)
"""Days from creation to update."""


def sorted_filters(sort: str, given: dict[str, str]) -> OrderListFilterSet:
    key, direction = sort.split()
    return order_filters({**given, "order_key": key, "order_direction": direction})


def keys_in_one_query(filters: OrderListFilterSet) -> list[Any]:
    sort = filters.form.keyset()
    signs = [f"-{name}" if sort.descending else name for name in sort.columns]
    return list(filters.qs.order_by(*signs).values_list("pk", flat=True))


def all_pages(filters: OrderListFilterSet, size: int = 7) -> list[Page[Order]]:
    """Return all pages, and check that the last step back gives the previous page."""
    rows = filters.qs
    pages = [ORDER_LIST.page(rows, filters, size, {"after": None, "before": None})]
    while cursor := pages[-1].next:
        pages.append(ORDER_LIST.page(rows, filters, size, {"after": cursor, "before": None}))
    previous_page = ORDER_LIST.page(
        rows, filters, size, {"after": None, "before": pages[-1].previous}
    )
    assert keys_of(previous_page) == keys_of(pages[-2])
    return pages


def keys_of(*pages: Page[Order]) -> list[Any]:
    return [row.pk for page in pages for row in page.rows]


@pytest.mark.parametrize("key", [*SORTS])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_overdue_orders_with_name_are_paged(key: str, direction: str) -> None:
    names = [f"{first} {last}" for first in ("ada", "bea", "eda") for last in ("adams", "sample")]
    Order.objects.bulk_create(
        order(n, patient_name=names[n % 6], recipient_name=names[n % 5], quiet_at=START)
        for n in range(40)
    )
    filters = sorted_filters(f"{key} {direction}", {"search_input": "ada", "quiet": "true"})
    expected = keys_in_one_query(filters)
    assert 20 < len(expected) < 40
    assert keys_of(*all_pages(filters)) == expected


@pytest.mark.parametrize("key", [*SORTS])
@pytest.mark.parametrize("given", [{}, {"start_date": "2020-01-01"}, {"search_input": "ada"}])
def test_many_overdue_orders_are_paged(key: str, given: dict[str, str]) -> None:
    now = datetime.now(UTC)
    Order.objects.bulk_create(
        order(
            n,
            patient_name=f"ada sample{n % 50}",
            quiet_at=(START + n * DAY / 50, None, now + DAY, START)[n % 4],
            bucket="closed" if n % 7 == 0 else "at-lab",
        )
        for n in range(1_300)
    )
    filters = sorted_filters(f"{key} desc", {**given, "quiet": "true"})
    expected = keys_in_one_query(filters)
    position: PagePosition = {"after": None, "before": None}
    pages: list[Page[Order]] = []
    while not pages or pages[-1].next:
        count, page = ORDER_LIST.count_and_page(filters, 200, position)
        assert str(count) == "500+"
        pages.append(page)
        position = {"after": page.next, "before": None}
    assert len(expected) > COUNT_CAP
    assert keys_of(*pages) == expected


@time_machine.travel(START + 40 * DAY, tick=False)
@pytest.mark.parametrize("sort", ["created_at asc", "created_at desc", "updated_at asc"])
@pytest.mark.parametrize(
    "given",
    [
        {"ordered": "last_30", "changed": "last_30"},
        {"ordered": "last_30", "changed": "last_30", "search_input": "ada"},
        {"start_date": "2024-06-01", "updated_start_date": "2024-06-01"},
    ],
)
def test_short_period_sorted_by_its_column_is_paged(sort: str, given: dict[str, str]) -> None:
    Order.objects.bulk_create(
        order(
            n,
            created_at=START + n * DAY / 20,
            updated_at=START + n * DAY / 20 + timedelta(hours=n % 90),
            patient_name=f"ada sample{n % 610}",
        )
        for n in range(1_400)
    )
    filters = sorted_filters(sort, given)
    expected = keys_in_one_query(filters)
    position: PagePosition = {"after": None, "before": None}
    pages: list[Page[Order]] = []
    while not pages or pages[-1].next:
        count, page = ORDER_LIST.count_and_page(filters, 100, position)
        pages.append(page)
        position = {"after": page.next, "before": None}
    assert str(count) == "500+"
    assert len(expected) > COUNT_CAP
    assert keys_of(*pages) == expected


@time_machine.travel(START + 90 * DAY, tick=False)
@pytest.mark.parametrize("sort", ["created_at", "updated_at", "last_status"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize(
    "given",
    [
        {"end_date": "2025-03-01"},
        {"updated_start_date": "2025-03-01"},
        {"ordered": "last_30"},
        {"changed": "last_30"},
        {"end_date": "2025-03-20", "updated_start_date": "2025-02-10"},
        {"end_date": "2025-03-20", "updated_start_date": "2025-02-10", "search_input": "ada"},
        {"end_date": "2025-03-10", "updated_start_date": "2025-04-12"},
        {"end_date": "2025-03-20", "changed": "last_30"},
        {"end_date": "9999-12-30"},
        {"updated_start_date": "0001-01-01"},
    ],
)
def test_period_sorted_by_another_column_is_paged(
    sort: str, direction: str, given: dict[str, str]
) -> None:
    """An order that was created early and updated late is at an unusual position."""
    update_delays = [timedelta(days=days) for days in UPDATED_AFTER]
    creation_times = [START + DAY * 1.5 * n for n in range(70)]
    Order.objects.bulk_create(
        order(
            n,
            created_at=moment,
            updated_at=moment + update_delays[n % len(update_delays)] + timedelta(seconds=n % 2),
            patient_name=f"{'ada' if n % 5 else 'bea'} sample",
        )
        for n, moment in enumerate(creation_times)
    )
    filters = sorted_filters(f"{sort} {direction}", given)
    expected = keys_in_one_query(filters)
    assert len(expected) > 7
    assert keys_of(*all_pages(filters)) == expected
