"""Lists filtered by name: pages equal those of one plain query.

This holds for each way to find a page, in both directions, and for the count.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from backoffice.pages.paging.pages import Page, PagePosition
from orders.models import Order
from orders.models.name import COLUMN_CONDITIONS, name_condition
from orders.order_list.filters import OrderListFilterSet
from orders.order_list.order_list import ORDER_LIST
from patients.search_text import required_prefixes
from tests.api.rows import NOW, order
from tests.orders.filters import order_filters

pytestmark = pytest.mark.django_db

NAME_FILTERS = (
    {"patient_name": "ad"},
    {"search_input": "a"},
    {"search_input": "ada", "patient_name": "ad"},
    {"shipping_recipient_name": "ada"},
    {"search_input": "xu"},
)
OTHER_FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"status": ["lost"]},
    {"interpretation": "critical"},
    {"bucket": "at-lab"},
    {"bucket": "at-lab", "quiet": "true"},
    {"start_date": (NOW - timedelta(days=20)).date().isoformat()},
    {"updated_start_date": (NOW - timedelta(days=1)).date().isoformat()},
)
SORTS = ("created_at desc", "last_status asc", "patient_name asc", "patient_name desc")


@pytest.fixture
def orders() -> None:
    """Orders of few patients with many recipients: one patient name belongs to many name pairs."""
    Order.objects.bulk_create(
        order(
            n,
            patient_name=f"{('ada', 'adam', 'bea', 'xu')[n % 4]} {('adams', 'sample')[n % 3 == 0]}",
            recipient_name=(f"parcel {n % 9} ada", "bea sample", "")[n % 3],
            created_at=NOW - timedelta(hours=30 * (n % 37)),
            updated_at=NOW - timedelta(hours=30 * (n % 37) - 29 * (n % 2)),
            bucket=("at-lab", "closed", "needs-action")[n % 3],
            low_level_status=("completed", "ordered", "lost")[n % 5 % 3],
            interpretation=(None, "normal", "critical", "abnormal")[n % 4],
            quiet_at=(None, NOW - timedelta(days=n % 9), NOW + timedelta(days=3_000))[n % 3],
        )
        for n in range(240)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def test_every_page_and_count_equals_plain_query(orders: None) -> None:
    for typed in NAME_FILTERS:
        for state in OTHER_FILTERS:
            for sort in SORTS:
                key, direction = sort.split()
                values = {**typed, **state, "order_key": key, "order_direction": direction}
                assert_equals_plain_query(order_filters(values), values)


TYPED_NAMES = ("ad", "a", "ada", "xu", "ada sam", "sam a", "bea parcel", "parcel 7", "o'ada", "-")


def test_many_and_few_names_have_the_same_condition(orders: None) -> None:
    """Names that are found first, and names that are checked in each order."""
    for columns in (("names",), ("patient_name",), ("recipient_name",), tuple(COLUMN_CONDITIONS)):
        for text in TYPED_NAMES:
            typed = dict.fromkeys(columns, required_prefixes(text))
            by_key = set(Order.objects.filter(name_condition(typed)))
            assert set(Order.objects.filter(name_condition(typed, max_names=0))) == by_key, typed


def assert_equals_plain_query(
    filters: OrderListFilterSet, values: dict[str, Any], size: int = 11
) -> None:
    sort = filters.form.keyset()
    signs = [f"-{column}" if sort.descending else column for column in sort.columns]
    expected = list(filters.qs.order_by(*signs).values_list("pk", flat=True))
    pages: list[Page[Order]] = []
    position: PagePosition = {"after": None, "before": None}
    while not pages or position["after"]:
        count, page = ORDER_LIST.count_and_page(filters, size, position)
        pages.append(page)
        position = {"after": page.next, "before": None}
        is_true = len(expected) > count.value if count.capped else len(expected) == count.value
        assert is_true, (values, str(count), len(expected))
    assert [row.pk for page in pages for row in page.rows] == expected, values
    for earlier, later in pairwise(pages):
        before: PagePosition = {"after": None, "before": later.previous}
        _, again = ORDER_LIST.count_and_page(filters, size, before)
        assert [row.pk for row in again.rows] == [row.pk for row in earlier.rows], values
