"""Pages of short lists, found by key, and of long lists, found along the sort: the same rows."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.test.utils import CaptureQueriesContext

from backoffice.operations.run_list import RUN_LIST
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.filtered_page import count_and_page
from backoffice.pages.paging.pages import Page, PagePosition, Sort, fetch_page
from backoffice.sync.models import SyncRun
from orders.models import Order
from tests.api.rows import order, staff

pytestmark = pytest.mark.django_db

SORTS = (
    Sort(("created_at", "id"), descending=True),
    Sort(("low_level_status", "created_at", "id")),
    Sort(("patient_name", "id"), private=True),
)
START: PagePosition = {"after": None, "before": None}


@pytest.fixture
def some() -> QuerySet[Order]:
    statuses = ("ordered", "completed")
    Order.objects.bulk_create(
        order(n, patient_name=f"testperson {n % 4}", low_level_status=statuses[n % 2])
        for n in range(60)
    )
    return Order.objects.filter(low_level_status="completed")


def keys(page: Page[Order]) -> list[Any]:
    return [row.pk for row in page.rows]


def page_of(
    rows: QuerySet[Order], sort: Sort, place: PagePosition, cap: int
) -> tuple[Count, Page[Order]]:
    return count_and_page(rows, Order.objects.all(), sort, 7, place, cap=cap)


def all_pages(rows: QuerySet[Order], sort: Sort, cap: int) -> list[list[Any]]:
    """Return the keys of each page, forwards; check that going back gives the same."""
    count, page = page_of(rows, sort, START, cap)
    pages = [keys(page)]
    while page.next:
        assert page_of(rows, sort, {"after": page.next, "before": None}, cap)[0] == count
        page = page_of(rows, sort, {"after": page.next, "before": None}, cap)[1]
        pages.append(keys(page))
    back = [pages[-1]]
    while page.previous:
        page = page_of(rows, sort, {"after": None, "before": page.previous}, cap)[1]
        back.insert(0, keys(page))
    assert back == pages
    return pages


@pytest.mark.parametrize("sort", SORTS)
def test_both_ways_find_the_same_pages(some: QuerySet[Order], sort: Sort) -> None:
    signs = [f"-{name}" if sort.descending else name for name in sort.columns]
    expected = list(some.order_by(*signs).values_list("pk", flat=True))
    assert len(expected) == 30
    for cap in (30, 29):
        pages = all_pages(some, sort, cap)
        assert len(pages) == 5
        assert [key for page in pages for key in page] == expected


def test_matches_up_to_the_cap_are_counted_exactly(some: QuerySet[Order]) -> None:
    assert str(page_of(some, SORTS[0], START, 30)[0]) == "30"
    assert str(page_of(some, SORTS[0], START, 29)[0]) == "29+"
    for nothing in (some.filter(bucket="none"), some.none()):
        count, page = page_of(nothing, SORTS[0], START, 30)
        assert (count.value, page.rows) == (0, [])


def test_short_list_is_read_by_key(some: QuerySet[Order]) -> None:
    for cap, is_by_key in ((30, True), (29, False)):
        with CaptureQueriesContext(connection) as captured:
            page_of(some, SORTS[0], START, cap)
        assert ("unnest(" in captured.captured_queries[-1]["sql"]) == is_by_key


def test_page_before_new_rows_is_the_first_page(some: QuerySet[Order]) -> None:
    """Rows that came since would otherwise be a page of their own, with only a few rows."""
    for sort in SORTS:
        first = fetch_page(some, sort, size=7)
        before = fetch_page(some, sort, size=5, after=first.next).previous
        assert before
        full = fetch_page(some, sort, size=5, before=before)
        assert keys(full) == keys(first)[2:] and full.previous
        for size in (7, 9):
            page = fetch_page(some, sort, size=size, before=before)
            assert keys(page) == keys(fetch_page(some, sort, size=size))
            assert page.previous is None and page.next


def test_stored_count_is_shown_exactly(some: QuerySet[Order]) -> None:
    count, page = count_and_page(some, Order.objects.all(), SORTS[0], 7, START, number=30, cap=20)
    assert str(count) == "30"
    assert keys(page) == keys(fetch_page(some, SORTS[0], size=7))


def test_filter_of_url_reaches_sql_in_few_calls(client: Client) -> None:
    """From the view to the statement with a filter's value: at most eight calls of ours."""
    labs = [SyncRun(resource="labs", full=False, state="done") for _ in range(3)]
    SyncRun.objects.bulk_create([*labs, SyncRun(resource="orders", full=False)])
    client.force_login(staff("administrator"))
    stacks: list[list[str]] = []

    def note(execute: Any, sql: Any, parameters: Any, many: bool, context: Any) -> Any:
        if 'FROM "sync_syncrun"' in str(sql) and "labs" in str(parameters):
            stacks.append(
                [
                    frame.name
                    for frame in traceback.extract_stack()
                    if "/backoffice/" in frame.filename and "/site-packages/" not in frame.filename
                ]
            )
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(note):
        page = client.get(RUN_LIST.url(), {"resource": "labs"})
    assert page.context["total"].value == 3
    assert stacks and all(len(stack[stack.index("show") :]) <= 8 for stack in stacks)
