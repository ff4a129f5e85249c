"""Pages of rows that are found all at once, and of rows along the index of a sort: the same."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from backoffice.pages.paging.pages import Page, PagePosition, Sort, fetch_page, fetch_page_and_count
from backoffice.pages.paging.row_query import match_rows, planner_estimate
from orders.models import Order
from tests.api.rows import order

pytestmark = pytest.mark.django_db

SORTS = (
    Sort(("created_at", "id"), descending=True),
    Sort(("low_level_status", "created_at", "id")),
    Sort(("patient_name", "id"), private=True),
)


@pytest.fixture
def some() -> QuerySet[Order]:
    statuses = ("ordered", "completed")
    Order.objects.bulk_create(
        order(n, patient_name=f"testperson {n % 4}", low_level_status=statuses[n % 2])
        for n in range(60)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
    return Order.objects.filter(low_level_status="completed")


def keys(page: Page[Order]) -> list[Any]:
    return [row.pk for row in page.rows]


@pytest.mark.parametrize("sort", SORTS)
def test_every_page_in_both_directions(some: QuerySet[Order], sort: Sort) -> None:
    walked = gone_through(some, sort, None)
    assert sum(len(page) for page in walked) == 30 and len(walked) == 5
    assert gone_through(some, sort, Order.objects.all()) == walked
    found = match_rows(some, Order.objects.all(), sort)
    assert gone_through(found.rows, sort, found.all_rows) == walked
    assert all_found(some, sort) == walked


def all_found(rows: QuerySet[Order], sort: Sort) -> list[list[Any]]:
    """The same pages, each by the statement that finds them all and tells how many."""
    pages: list[list[Any]] = []
    place: PagePosition = {"after": None, "before": None}
    while not pages or place["after"]:
        found = fetch_page_and_count(rows, sort, Order.objects.all(), size=7, limit=30, **place)
        assert found and str(found[0]) == "30"
        pages.append(keys(found[1]))
        back: PagePosition = {"after": None, "before": found[1].previous}
        if found[1].previous:
            earlier = fetch_page_and_count(
                rows, sort, Order.objects.all(), size=7, limit=30, **back
            )
            assert earlier and keys(earlier[1]) == pages[-2]
        place = {"after": found[1].next, "before": None}
    assert fetch_page_and_count(rows, sort, Order.objects.all(), size=7, limit=29, **back) is None
    return pages


@pytest.mark.parametrize("sort", SORTS)
def test_beyond_the_last_row_they_are_counted_all_the_same(
    some: QuerySet[Order], sort: Sort
) -> None:
    all_rows = Order.objects.all()
    found = fetch_page_and_count(some, sort, all_rows, size=29, limit=30)
    assert found and found[1].next
    rest = Order.objects.filter(pk__in=keys(found[1]))
    beyond = fetch_page_and_count(rest, sort, all_rows, size=29, limit=30, after=found[1].next)
    assert beyond and (str(beyond[0]), beyond[1].rows) == ("29", [])
    assert (
        fetch_page_and_count(rest, sort, all_rows, size=29, limit=28, after=found[1].next) is None
    )
    nobody = fetch_page_and_count(some.none(), sort, all_rows, size=7, limit=30)
    assert nobody and (nobody[0].value, nobody[1].rows) == (0, [])


def gone_through(
    rows: QuerySet[Order], sort: Sort, all_rows: QuerySet[Order] | None
) -> list[list[Any]]:
    """Keys of each page, forwards; going back meets the same."""
    page = fetch_page(rows, sort, size=7, all_rows=all_rows)
    pages = [keys(page)]
    while page.next:
        page = fetch_page(rows, sort, size=7, all_rows=all_rows, after=page.next)
        pages.append(keys(page))
    back = [pages[-1]]
    while page.previous:
        page = fetch_page(rows, sort, size=7, all_rows=all_rows, before=page.previous)
        back.insert(0, keys(page))
    assert back == pages
    return pages


def test_matches_up_to_the_cap_are_counted_exactly(some: QuerySet[Order]) -> None:
    found = match_rows(some, Order.objects.all(), SORTS[0], cap=30)
    assert (str(found.count), found.rows.count()) == ("30", 30)
    assert "completed" not in str(found.rows.query)
    found = match_rows(some, Order.objects.all(), SORTS[0], cap=29)
    assert (str(found.count), found.rows) == ("29+", some)
    assert found.all_rows is not None
    assert match_rows(Order.objects.all(), Order.objects.all(), SORTS[0], cap=29).all_rows is None
    nobody = match_rows(some.filter(bucket="none"), Order.objects.all(), SORTS[0])
    assert (nobody.count.value, list(nobody.rows)) == (0, [])
    assert match_rows(some.none(), Order.objects.all(), SORTS[0]).count.value == 0


def test_a_guess_of_fewer_than_were_counted_is_not_believed() -> None:
    """Each half of these is one in four, and they are the same orders."""
    Order.objects.bulk_create(
        order(n, sample_id=f"s{n % 4}", lab_test_name=f"test {n % 4}") for n in range(400)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
    same = Order.objects.filter(sample_id="s1", lab_test_name="test 1")
    assert same.count() == 100 > planner_estimate(same).rows
    assert match_rows(same, Order.objects.all(), SORTS[0], cap=80).all_rows is None
    assert match_rows(same, Order.objects.all(), SORTS[0], cap=10).all_rows is not None
    assert match_rows(same, Order.objects.all(), SORTS[0], cap=10, quick_plan=None).all_rows is None
