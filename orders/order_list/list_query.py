"""Read a page of the list of orders, and their number, by the fastest query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from django.db.models import F, QuerySet

from backoffice.core import prepared_queries
from backoffice.pages.paging.counts import Count, capped_count
from backoffice.pages.paging.keys import (
    CursorValues,
    KeyInArray,
    KeysetQueryBuilder,
    cursor_condition_sql,
    keys_by_full_sort,
    keys_by_index_scan,
    keys_unsorted,
    keys_unsorted_by_pk,
    order_by_sql,
)
from backoffice.pages.paging.pages import Page, PagePosition, fetch_page, fetch_page_and_count
from backoffice.pages.paging.row_query import match_rows, read_keys
from orders.models import Order, OrderNameWord
from orders.models.name import FIRST_NAMES, first_orders_by_name, first_orders_of_first_names
from orders.models.order_queryset import OrderQuerySet
from orders.order_list import query_plan
from orders.order_list.definition import ORDER_LIST, ROW_COLUMNS
from orders.today.counts import OrderCounts, order_counts

COUNTED_FILTERS: Final = frozenset({"status", "order_type"})
"""Filters for which triggers keep counts, besides the bucket."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits that decide how a page of a search by name is found."""

    few_names: int = 600
    """Most name words whose keys are passed to the planner. The planner then knows how many orders
    to expect.
    """
    orders_of_few_names: int = 20_000
    """Most orders of a few names that are read at once and sorted. One name may have thousands."""
    first_names: int = FIRST_NAMES


SEARCH_LIMITS: Final = SearchLimits()


def known_counts(form: Any) -> OrderCounts | None:
    """Return the counts kept by triggers if only filters on the state are active, else None."""
    active_names = {name for name in form.filter_names() if form.cleaned_data.get(name)}
    return order_counts() if active_names <= COUNTED_FILTERS else None


def count_and_page(
    form: Any,
    size: int,
    place: PagePosition,
    known: OrderCounts | None,
    limits: SearchLimits = SEARCH_LIMITS,
) -> tuple[Count, Page[Order]]:
    """Return how many orders match a valid form, and a page of them.

    `known`: the answer of `known_counts`.
    """
    if known is None:
        return _search_page(form, size, place, limits)
    filters = form.cleaned_data
    number = known.count(
        bucket=filters["bucket"], statuses=filters["status"], methods=filters["order_type"]
    )
    everything, sort = ORDER_LIST.visible_rows(form.user), form.keyset()
    if not (filters["bucket"] or filters["status"] or filters["order_type"]):
        read = partial(_all_orders, sort.columns)
        return Count(number), fetch_page(everything, sort, size=size, read=read, **place)
    first = keys_by_full_sort if number <= query_plan.sort_limit(form).rows else keys_by_index_scan
    rows = ORDER_LIST.filtered_rows(form, form.user)
    return Count(number), fetch_page(
        rows, sort, size=size, all_rows=everything, build_query=first, **place
    )


def _all_orders(
    columns: Sequence[str], _: QuerySet[Order], edge: CursorValues, most: int, descending: bool
) -> list[Order]:
    """Return the first of all orders after the cursor `edge`, along the index of the sort."""
    statement = (
        f"SELECT {prepared_queries.columns(Order, ROW_COLUMNS)} FROM orders_order"  # noqa: S608
        f"{cursor_condition_sql(columns, edge, descending)}"
        f" ORDER BY {order_by_sql(columns, descending)} LIMIT {most}"
    )
    return prepared_queries.read(Order, statement, edge or (), ROW_COLUMNS)


def _search_page(
    form: Any, size: int, place: PagePosition, limits: SearchLimits
) -> tuple[Count, Page[Order]]:
    rows, typed = _filtered_rows(form)
    everything = ORDER_LIST.visible_rows(form.user)
    if typed:
        few = _matching_names(typed, limits.few_names)
        if few is None:
            return _page_of_many_names(rows, typed, form, size, place, limits.first_names)
        rows = rows.filter(KeyInArray(F("names"), few))
        result = fetch_page_and_count(
            rows, form.keyset(), everything, size=size, limit=limits.orders_of_few_names, **place
        )
        if result:
            return result
    walks = typed or query_plan.walks_sort_index(form) or query_plan.sorts_by_name(form)
    limit = None if walks else query_plan.sort_limit(form)
    counted = match_rows(rows, everything, form.keyset(), quick_plan=limit)
    if not counted.count.capped or counted.all_rows is not None:
        return counted.count, ORDER_LIST.page(counted.rows, form, size, place, counted.all_rows)
    if not typed and query_plan.is_overdue_scattered(form):
        rows, _ = _filtered_rows(form, walks_rows=True)
    return counted.count, long_list_page(rows, {}, form, size, place)


def _page_of_many_names(
    rows: OrderQuerySet,
    typed: Mapping[str, str],
    form: Any,
    size: int,
    place: PagePosition,
    first_names: int,
) -> tuple[Count, Page[Order]]:
    """Return a page of orders that match many names.

    The lookup of the names takes longer than everything else, so only the page needs it. A long
    list is not counted: the count says that there are more. The last page is counted, up to the
    size of a page.
    """
    everything, sort, name_words = (
        ORDER_LIST.visible_rows(form.user),
        form.keyset(),
        rows.with_names(typed),
    )
    by_name, begins = query_plan.sorts_by_name(form), not (place["after"] or place["before"])
    if query_plan.matches_few_orders(form) or (
        len(typed) == 1 and query_plan.is_cheap_to_read_at_once(name_words, form)
    ):
        # The index of rare results also has the name.
        find = (
            keys_unsorted_by_pk
            if by_name and not query_plan.has_rare_result(form)
            else keys_unsorted
        )
        most = query_plan.sort_limit(form).rows
        result = fetch_page_and_count(
            name_words, sort, everything, size=size, limit=most, build_query=find, **place
        )
        if result:
            return result
    if query_plan.is_overdue_scattered(form):
        rows, _ = _filtered_rows(form, walks_rows=True)
    page: Page[Order] = Page()
    if by_name and begins:
        first = partial(
            first_orders_of_first_names, OrderNameWord.matching(typed), first_names=first_names
        )
        page = fetch_page(rows, sort, size=size, all_rows=everything, build_query=first)
    if not page.next:
        page = long_list_page(rows, typed, form, size, place)
    if page.next and len(page.rows) == size:
        return Count(size, capped=True), page
    return Count(len(page.rows)) if begins else capped_count(name_words, size), page


def _filtered_rows(form: Any, *, walks_rows: bool = False) -> tuple[OrderQuerySet, dict[str, str]]:
    """Return the rows with every filter except names, and the typed names."""
    rows = ORDER_LIST.filtered_rows(form, form.user, walks_rows=walks_rows)
    return rows.matching_identifiers(form.cleaned_data, by_name=form.by_name)


def _matching_names(typed: Mapping[str, str], limit: int) -> str | None:
    """Return the keys of matching names as a PostgreSQL array; None if there are over `limit`.

    A single letter is not looked up: either it has too many names, or the planner knows that it has
    few (`query_plan.is_cheap_to_read_at_once`).
    """
    if len(typed) == 1 and len("".join(typed.values()).strip()) == 1:
        return None
    count, names = read_keys(OrderNameWord.matching(typed).values("names"), limit)
    return names if count <= limit else None


def long_list_page(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any, size: int, place: PagePosition
) -> Page[Order]:
    """Return a page of a list that is long and not counted.

    With names in the filter, the names are read first. The orders are then checked against them
    along the index of the sort. In a sort by name, the orders are read name by name. With a filter
    on one time and a sort by another, the range with most of the rows and the rest are searched
    separately. Whether orders are overdue is checked inside the index.
    """
    rows, first = _first_rows_query(rows, typed, form)
    whole = ORDER_LIST.visible_rows(form.user)
    return fetch_page(rows, form.keyset(), size=size, all_rows=whole, build_query=first, **place)


def _first_rows_query(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any
) -> tuple[OrderQuerySet, KeysetQueryBuilder]:
    if typed and query_plan.sorts_by_name(form):
        return rows, partial(first_orders_by_name, OrderNameWord.matching(typed))
    near = query_plan.likely_range(form)
    rows = rows.with_names(typed, is_walked=True) if typed else rows
    return rows, partial(query_plan.likely_range_then_rest, near) if near else keys_by_index_scan
