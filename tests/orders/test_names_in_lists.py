"""Lists of those who are called so: whatever way a page is found, it is the page of the one plain
statement, in both directions, and the number told with it is true."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection

from backoffice.pages.paging import keys
from backoffice.pages.paging.pages import Page, PagePosition
from orders.forms import OrderFilters
from orders.models import Order, name
from orders.order_list import list_query
from orders.order_list.definition import ORDER_LIST
from tests.api.rows import NOW, order

pytestmark = pytest.mark.django_db

TYPED = (
    {"patient_name": "ad"},
    {"search_input": "a"},
    {"search_input": "ada", "patient_name": "ad"},
    {"shipping_recipient_name": "ada"},
    {"search_input": "xu"},
)
STATES: tuple[dict[str, Any], ...] = (
    {},
    {"status": ["lost"]},
    {"interpretation": "critical"},
    {"bucket": "at-lab"},
    {"bucket": "at-lab", "quiet": "true"},
    {"start_date": (NOW - timedelta(days=20)).date().isoformat()},
    {"updated_start_date": (NOW - timedelta(days=1)).date().isoformat()},
)
SORTED_BY = ("created_at desc", "last_status asc", "patient_name asc", "patient_name desc")


@pytest.fixture
def orders() -> None:
    """Of few patients, most of whom have parcels to many: names of one patient are many names."""
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


@pytest.mark.parametrize(
    ("few", "first", "of_few"),
    [(0, 7, 5), (0, 30, 5), (0, 400, 5), (600, 400, 20_000), (600, 400, 5)],
)
def test_every_page_and_number(
    orders: None, few: int, first: int, of_few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_query, "FEW_NAMES", few)
    monkeypatch.setattr(name, "FIRST_NAMES", first)
    monkeypatch.setattr(list_query, "MAX_ORDERS_OF_FEW_NAMES", of_few)
    for typed in TYPED:
        for state in STATES:
            for sort in SORTED_BY:
                key, direction = sort.split()
                asked = {**typed, **state, "order_key": key, "order_direction": direction}
                form = OrderFilters(asked, by_name=True, sees_results=True)
                assert form.is_valid(), form.errors
                assert_as_in_one_statement(form, asked)


def assert_as_in_one_statement(form: OrderFilters, asked: dict[str, Any], size: int = 11) -> None:
    sort = form.keyset()
    signs = [f"-{column}" if sort.descending else column for column in sort.columns]
    wanted = list(ORDER_LIST.rows(form, None).order_by(*signs).values_list("pk", flat=True))
    pages: list[Page[Order]] = []
    place: PagePosition = {"after": None, "before": None}
    while not pages or place["after"]:
        count, page = list_query.count_and_page(form, size, place, None)
        pages.append(page)
        place = {"after": page.next, "before": None}
        told = len(wanted) > count.value if count.capped else len(wanted) == count.value
        assert told, (asked, str(count), len(wanted))
    assert [row.pk for page in pages for row in page.rows] == wanted, asked
    for earlier, later in pairwise(pages):
        before: PagePosition = {"after": None, "before": later.previous}
        _, again = list_query.count_and_page(form, size, before, None)
        assert [row.pk for row in again.rows] == [row.pk for row in earlier.rows], asked


def test_what_is_found_by_key_is_sorted_by_what_no_filter_has(
    orders: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    def noted(*given: Any) -> keys.KeysetQuery:
        used.append(1)
        return keys.keys_unsorted_by_pk(*given)

    monkeypatch.setattr(list_query, "keys_unsorted_by_pk", noted)
    monkeypatch.setattr(list_query, "FEW_NAMES", 0)
    asked = {"patient_name": "a", "status": ["lost"], "order_key": "patient_name"}
    for direction in ("asc", "desc"):
        form = OrderFilters(
            {**asked, "order_direction": direction}, by_name=True, sees_results=True
        )
        assert form.is_valid()
        assert_as_in_one_statement(form, asked)
    assert len(used) > 4
