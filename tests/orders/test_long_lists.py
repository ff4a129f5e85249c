"""Long lists, page by page: each page by the statement that is quick for what was asked, and all of
them the list that one plain statement gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from backoffice.pages.paging.counts import COUNT_CAP
from backoffice.pages.paging.pages import Page, PagePosition
from orders.forms import SORTS, OrderFilters
from orders.models import Order
from orders.order_list.definition import ORDER_LIST
from orders.order_list.list_query import count_and_page, long_list_page
from tests.api.rows import order

pytestmark = pytest.mark.django_db

BEGUN = datetime(2025, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UPDATED_AFTER = (0, 3, 29, 30, 31, 45, 200, 300, 400)
"""Days. A month is the usual time, and the index of those that took longer begins behind it."""


def sorted_by(sort: str, given: dict[str, str]) -> OrderFilters:
    key, direction = sort.split()
    form = OrderFilters(
        {**given, "order_key": key, "order_direction": direction}, by_name=True, sees_results=True
    )
    assert form.is_valid(), form.errors
    return form


def in_one_statement(form: OrderFilters) -> list[Any]:
    sort = form.keyset()
    signs = [f"-{name}" if sort.descending else name for name in sort.columns]
    return list(ORDER_LIST.rows(form, None).order_by(*signs).values_list("pk", flat=True))


def walk(form: OrderFilters) -> list[Page[Order]]:
    """All pages of seven, there; the last step is taken back as well."""
    rows, typed = ORDER_LIST.filtered_rows(form, None).matching_identifiers(
        form.cleaned_data, by_name=True
    )
    opened = partial(long_list_page, rows, typed, form, 7)
    pages = [opened({"after": None, "before": None})]
    while place := pages[-1].next:
        pages.append(opened({"after": place, "before": None}))
    again = opened({"after": None, "before": pages[-1].previous})
    assert keys_of(again) == keys_of(pages[-2])
    return pages


def keys_of(*pages: Page[Order]) -> list[Any]:
    return [row.pk for page in pages for row in page.rows]


@pytest.mark.parametrize("key", [*SORTS])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_of_names_over_their_usual_time(key: str, direction: str) -> None:
    names = [f"{first} {last}" for first in ("ada", "bea", "eda") for last in ("adams", "sample")]
    Order.objects.bulk_create(
        order(n, patient_name=names[n % 6], recipient_name=names[n % 5], quiet_at=BEGUN)
        for n in range(40)
    )
    form = sorted_by(f"{key} {direction}", {"search_input": "ada", "quiet": "true"})
    wanted = in_one_statement(form)
    assert 20 < len(wanted) < 40
    assert keys_of(*walk(form)) == wanted


@pytest.mark.parametrize("key", [*SORTS])
@pytest.mark.parametrize("given", [{}, {"start_date": "2020-01-01"}, {"search_input": "ada"}])
def test_of_many_over_their_usual_time(key: str, given: dict[str, str]) -> None:
    now = datetime.now(UTC)
    Order.objects.bulk_create(
        order(
            n,
            patient_name=f"ada sample{n % 50}",
            quiet_at=(BEGUN + n * DAY / 50, None, now + DAY, BEGUN)[n % 4],
            bucket="closed" if n % 7 == 0 else "at-lab",
        )
        for n in range(1_300)
    )
    form = sorted_by(f"{key} desc", {**given, "quiet": "true"})
    wanted = in_one_statement(form)
    place: PagePosition = {"after": None, "before": None}
    pages: list[Page[Order]] = []
    while not pages or pages[-1].next:
        count, page = count_and_page(form, 200, place, None)
        assert str(count) == "500+"
        pages.append(page)
        place = {"after": page.next, "before": None}
    assert len(wanted) > COUNT_CAP
    assert keys_of(*pages) == wanted


@time_machine.travel(BEGUN + 40 * DAY, tick=False)
@pytest.mark.parametrize("sort", ["created_at asc", "created_at desc", "updated_at asc"])
@pytest.mark.parametrize(
    ("given", "walked"),
    [
        ({"ordered": "last_30", "changed": "last_30"}, True),
        ({"ordered": "last_30", "changed": "last_30", "search_input": "ada"}, False),
        ({"start_date": "2024-06-01", "updated_start_date": "2024-06-01"}, False),
    ],
)
def test_of_a_short_time_sorted_by_it(sort: str, given: dict[str, str], walked: bool) -> None:
    """They are walked to: the planner is not asked whether to find them all, but of names."""
    Order.objects.bulk_create(
        order(
            n,
            created_at=BEGUN + n * DAY / 20,
            updated_at=BEGUN + n * DAY / 20 + timedelta(hours=n % 90),
            patient_name=f"ada sample{n % 610}",
        )
        for n in range(1_400)
    )
    form = sorted_by(sort, given)
    wanted = in_one_statement(form)
    place: PagePosition = {"after": None, "before": None}
    pages: list[Page[Order]] = []
    with CaptureQueriesContext(connection) as captured:
        while not pages or pages[-1].next:
            count, page = count_and_page(form, 100, place, None)
            pages.append(page)
            place = {"after": page.next, "before": None}
    assert any("EXPLAIN" in query["sql"] for query in captured.captured_queries) != walked
    assert str(count) == "500+"
    assert len(wanted) > COUNT_CAP
    assert keys_of(*pages) == wanted


@time_machine.travel(BEGUN + 90 * DAY, tick=False)
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
def test_of_a_time_by_one_moment_sorted_by_another(
    sort: str, direction: str, given: dict[str, str]
) -> None:
    """What was ordered early and updated late stands where few look for it."""
    took = [timedelta(days=days) for days in UPDATED_AFTER]
    ordered = [BEGUN + DAY * 1.5 * n for n in range(70)]
    Order.objects.bulk_create(
        order(
            n,
            created_at=moment,
            updated_at=moment + took[n % len(took)] + timedelta(seconds=n % 2),
            patient_name=f"{'ada' if n % 5 else 'bea'} sample",
        )
        for n, moment in enumerate(ordered)
    )
    form = sorted_by(f"{sort} {direction}", given)
    wanted = in_one_statement(form)
    assert len(wanted) > 7
    assert keys_of(*walk(form)) == wanted
