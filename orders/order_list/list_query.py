"""A page of the list of orders, and how many there are: the shortest way to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from orders.models.name import first_orders_by_name, first_orders_of_first_names
from orders.models.order_queryset import OrderQuerySet
from orders.order_list import query_plan
from orders.order_list.definition import ORDERS, SHOWN
from orders.today.counts import Counts, counts

COUNTED_BY: Final = frozenset({"status", "order_type"})
"""Filters by what orders are counted by as they change, beside their bucket."""
FEW_NAMES: Final = 600
"""Words of names, whose numbers are told to the planner: it knows how many orders to expect."""
OF_FEW_NAMES: Final = 20_000
"""Orders of a few names, found at once rather than walked to: a name may have thousands."""


def known_counts(form: Any) -> Counts | None:
    """The counts of all orders, where nothing but their state narrows the list."""
    given = {name for name in form.filtering() if form.cleaned_data.get(name)}
    return counts() if given <= COUNTED_BY else None


def found(
    form: Any, size: int, place: PagePosition, known: Counts | None
) -> tuple[Count, Page[Order]]:
    """How many orders a valid form asks for, and a page of them. `known`: `known_counts`."""
    if known is None:
        return _looked_for(form, size, place)
    asked = form.cleaned_data
    number = known.of(bucket=asked["bucket"], statuses=asked["status"], methods=asked["order_type"])
    everything, sort = ORDERS.everything(form.user), form.keyset()
    if not (asked["bucket"] or asked["status"] or asked["order_type"]):
        read = partial(_of_all, sort.columns)
        return Count(number), fetch_page(everything, sort, size=size, read=read, **place)
    first = keys_by_full_sort if number <= query_plan.soon(form).rows else keys_by_index_scan
    rows = ORDERS.unworded(form, form.user)
    return Count(number), fetch_page(
        rows, sort, size=size, all_rows=everything, build_query=first, **place
    )


def _of_all(
    columns: Sequence[str], _: QuerySet[Order], edge: CursorValues, most: int, descending: bool
) -> list[Order]:
    """The first of all orders beyond an edge, along the index of the sort."""
    statement = (
        f"SELECT {prepared_queries.columns(Order, SHOWN)} FROM orders_order"  # noqa: S608
        f"{cursor_condition_sql(columns, edge, descending)}"
        f" ORDER BY {order_by_sql(columns, descending)} LIMIT {most}"
    )
    return prepared_queries.read(Order, statement, edge or (), SHOWN)


def _looked_for(form: Any, size: int, place: PagePosition) -> tuple[Count, Page[Order]]:
    rows, typed = _narrowed(form)
    everything = ORDERS.everything(form.user)
    if typed:
        few = _few_called(typed)
        if few is None:
            return _of_many_names(rows, typed, form, size, place)
        rows = rows.filter(KeyInArray(F("names"), few))
        found = fetch_page_and_count(
            rows, form.keyset(), everything, size=size, limit=OF_FEW_NAMES, **place
        )
        if found:
            return found
    walks = typed or query_plan.is_walked(form) or query_plan.sorts_by_name(form)
    soon = None if walks else query_plan.soon(form)
    counted = match_rows(rows, everything, form.keyset(), quick_plan=soon)
    if not counted.count.capped or counted.all_rows is not None:
        return counted.count, ORDERS.page(counted.rows, form, size, place, counted.all_rows)
    if not typed and query_plan.is_over_apart(form):
        rows, _ = _narrowed(form, along=True)
    return counted.count, page_of_many(rows, {}, form, size, place)


def _of_many_names(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any, size: int, place: PagePosition
) -> tuple[Count, Page[Order]]:
    """To look up who is called so takes longer than all the rest: it is done for the page alone,
    and of a long list no more is said than that it goes on. They are counted at its end, up to as
    many as a page has."""
    everything, sort, called = ORDERS.everything(form.user), form.keyset(), rows.with_names(typed)
    by_name, begins = query_plan.sorts_by_name(form), not (place["after"] or place["before"])
    if query_plan.has_few(form) or (len(typed) == 1 and query_plan.is_quick(called, form)):
        # Beside rare results the index has the name, too.
        find = (
            keys_unsorted_by_pk
            if by_name and not query_plan.has_rare_result(form)
            else keys_unsorted
        )
        most = query_plan.soon(form).rows
        found = fetch_page_and_count(
            called, sort, everything, size=size, limit=most, build_query=find, **place
        )
        if found:
            return found
    if query_plan.is_over_apart(form):
        rows, _ = _narrowed(form, along=True)
    page: Page[Order] = Page()
    if by_name and begins:
        first = partial(first_orders_of_first_names, OrderNameWord.matching(typed))
        page = fetch_page(rows, sort, size=size, all_rows=everything, build_query=first)
    if not page.next:
        page = page_of_many(rows, typed, form, size, place)
    if page.next and len(page.rows) == size:
        return Count(size, capped=True), page
    return Count(len(page.rows)) if begins else capped_count(called, size), page


def _narrowed(form: Any, *, along: bool = False) -> tuple[OrderQuerySet, dict[str, str]]:
    """All but the names that were typed; and these."""
    rows = ORDERS.unworded(form, form.user, along=along)
    return rows.matching_identifiers(form.cleaned_data, by_name=form.by_name)


def _few_called(typed: Mapping[str, str]) -> str | None:
    """The numbers of the names that begin so, as PostgreSQL writes an array; None: too many. Of one
    letter nobody looks: there are, or else the planner knows it (`ways.is_quick`)."""
    if len(typed) == 1 and len("".join(typed.values()).strip()) == 1:
        return None
    count, names = read_keys(OrderNameWord.matching(typed).values("names"), FEW_NAMES)
    return names if count <= FEW_NAMES else None


def page_of_many(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any, size: int, place: PagePosition
) -> Page[Order]:
    """A page of a list of which no more is known than that it is long. Of those who are called so
    the names are found first: orders are told by these as they are walked, or by name taken from
    one name after the other. Of those in a time by one moment, sorted by another, most are looked
    for where they usually stand. Those over their usual time are told inside the index, too."""
    rows, first = _way(rows, typed, form)
    whole = ORDERS.everything(form.user)
    return fetch_page(rows, form.keyset(), size=size, all_rows=whole, build_query=first, **place)


def _way(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any
) -> tuple[OrderQuerySet, KeysetQueryBuilder]:
    if typed and query_plan.sorts_by_name(form):
        return rows, partial(first_orders_by_name, OrderNameWord.matching(typed))
    near = query_plan.usual_place(form)
    rows = rows.with_names(typed, is_walked=True) if typed else rows
    return rows, partial(query_plan.there_and_elsewhere, near) if near else keys_by_index_scan
