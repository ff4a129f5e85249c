"""Pages of rows that are found all at once, and of rows along the index of a sort: the same."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import QuerySet

from backoffice.gathering import expected, gathered
from backoffice.paging import Page, Sort, page_of
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


def keys(page: Page[Order]) -> list[object]:
    return [row.pk for row in page.rows]


@pytest.mark.parametrize("sort", SORTS)
def test_every_page_in_both_directions(some: QuerySet[Order], sort: Sort) -> None:
    walked = gone_through(some, sort, None)
    assert sum(len(page) for page in walked) == 30 and len(walked) == 5
    assert gone_through(some, sort, Order.objects.all()) == walked
    found = gathered(some, Order.objects.all(), sort)
    assert gone_through(found.rows, sort, found.whole) == walked


def gone_through(
    rows: QuerySet[Order], sort: Sort, whole: QuerySet[Order] | None
) -> list[list[object]]:
    """Keys of each page, forwards; going back meets the same."""
    page = page_of(rows, sort, size=7, whole=whole)
    pages = [keys(page)]
    while page.next:
        page = page_of(rows, sort, size=7, whole=whole, after=page.next)
        pages.append(keys(page))
    back = [pages[-1]]
    while page.previous:
        page = page_of(rows, sort, size=7, whole=whole, before=page.previous)
        back.insert(0, keys(page))
    assert back == pages
    return pages


def test_up_to_the_cap_they_are_known_and_beyond_it_they_are_guessed(some: QuerySet[Order]) -> None:
    found = gathered(some, Order.objects.all(), SORTS[0], cap=30)
    assert (str(found.count), found.rows.count()) == ("30", 30)
    assert "completed" not in str(found.rows.query)
    found = gathered(some, Order.objects.all(), SORTS[0], cap=29)
    assert (str(found.count), found.rows) == ("29+", some)
    assert found.whole is not None
    assert gathered(Order.objects.all(), Order.objects.all(), SORTS[0], cap=29).whole is None
    nobody = gathered(some.filter(bucket="none"), Order.objects.all(), SORTS[0])
    assert (nobody.count.value, list(nobody.rows)) == (0, [])
    assert gathered(some.none(), Order.objects.all(), SORTS[0]).count.value == 0


def test_a_guess_of_fewer_than_were_counted_is_not_believed() -> None:
    """Each half of these is one in four, and they are the same orders."""
    Order.objects.bulk_create(
        order(n, sample_id=f"s{n % 4}", lab_test_name=f"test {n % 4}") for n in range(400)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_order")
    same = Order.objects.filter(sample_id="s1", lab_test_name="test 1")
    assert same.count() == 100 > expected(same).rows
    assert gathered(same, Order.objects.all(), SORTS[0], cap=80).whole is None
    assert gathered(same, Order.objects.all(), SORTS[0], cap=10).whole is not None
    assert gathered(same, Order.objects.all(), SORTS[0], cap=10, soon=None).whole is None
