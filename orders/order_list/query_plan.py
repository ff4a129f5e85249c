"""Choose the fastest way to find the orders of a filter form.

Either all of them are read at once and sorted, or the rows are read along the index of the sort
until the page is full ("walked"). The choice depends on where the matching orders are in that
index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.utils import timezone

from backoffice.core import vocabulary
from backoffice.pages.paging.keys import (
    CursorValues,
    KeysetQuery,
    keys_by_full_sort,
    keys_by_index_scan,
)
from backoffice.pages.paging.row_query import QUICK_PLAN, PlannerEstimate, planner_estimate
from orders.models import Order
from orders.models.order import CAN_GO_QUIET
from orders.models.order_queryset import (
    STILL_UPDATED,
    implied_by_usual_span,
    ordered_until_and_updated_since,
)

OPEN_BUCKETS: Final = (*CAN_GO_QUIET, vocabulary.NEEDS_ACTION)
"""Buckets of orders that are not finished. Most of these orders are recent."""
TIME_SORTS: Final = ("created_at", "updated_at", "last_status")
"""Sorts by the time an order was placed or updated, also within a status."""
SHORT_PERIOD: Final = timedelta(days=32)
RECENT_PERIOD: Final = timedelta(days=3)
MAX_QUICK_COST: Final = QUICK_PLAN.cost / 2
"""Highest cost at which reading all orders of a name is faster than walking to the first ones."""


def sorts_by_name(form: Any) -> bool:
    """Return whether the list is sorted by patient name.

    Names are independent of everything else about an order, as the planner assumes. So its estimate
    of the number of walked rows is correct.
    """
    return bool(form.sort[0] == "patient_name")


def walks_sort_index(form: Any) -> bool:
    """Return whether the form alone shows that the rows must be walked."""
    return is_overdue_scattered(form) or _sorts_by_short_period(form) or _is_near_start(form)


def is_overdue_scattered(form: Any) -> bool:
    """Return whether the filter is for overdue orders and the sort scatters them.

    The planner assumes that "overdue" is independent of everything else, and would expect far too
    few rows. In sorts by time, overdue orders are close together, but maybe at the far end.
    """
    return form.cleaned_data["quiet"] == "true" and form.sort[0] in ("patient_name", "last_status")


def is_cheap_to_read_at_once(rows: QuerySet[Order], form: Any) -> bool:
    """Return whether the planner expects a low cost for reading all orders of these names."""
    guess = planner_estimate(rows, form.keyset().columns)
    return guess.rows <= sort_limit(form).rows and guess.cost <= MAX_QUICK_COST


def matches_few_orders(form: Any) -> bool:
    """Return whether so few orders match that they are read at once, even with many names.

    These are orders in a rare state, or recent orders.
    """
    filters = form.cleaned_data
    rare_status = bool(filters["status"]) and "completed" not in filters["status"]
    rare = rare_status or filters["bucket"] == vocabulary.NEEDS_ACTION or has_rare_result(form)
    return rare or (sorts_by_name(form) and _is_recent(filters))


def has_rare_result(form: Any) -> bool:
    filters = form.cleaned_data
    return (
        filters["interpretation"] not in ("", "normal", "abnormal")
        or filters["is_critical"] == "true"
    )


def _is_recent(filters: Mapping[str, Any]) -> bool:
    """Return whether the filter is for recent orders, so few that sorting them by name is fast.

    The orders of the typed names alone would be many more.
    """
    starts = [filters["start_date"], filters["updated_start_date"]]
    starts += [filters[name][0] for name in ("ordered", "changed") if filters[name]]
    latest = max((each for each in starts if each), default=None)
    return latest is not None and timezone.now() - latest <= RECENT_PERIOD


def _sorts_by_short_period(form: Any) -> bool:
    """Return whether all rows are close together at the start of the list: they are walked."""
    return form.sort[0] in _short_periods(form.cleaned_data)


def _short_periods(filters: Mapping[str, Any]) -> set[str]:
    """Return the time columns that the form limits to a short period."""
    times = {
        "created_at": filters["ordered"] or (filters["start_date"], filters["end_date"]),
        "updated_at": filters["changed"]
        or (filters["updated_start_date"], filters["updated_end_date"]),
    }
    return {
        moment
        for moment, (first, last) in times.items()
        if first is not None and last is not None and last - first <= SHORT_PERIOD
    }


def _is_near_start(form: Any) -> bool:
    """Return whether the rows are near the start of the list.

    Open and recently changed orders are among the newest. In the sort by update, the orders of a
    bucket have their own index.
    """
    filters, (key, direction) = form.cleaned_data, form.sort
    if key == "updated_at":
        return bool(filters["bucket"])
    recent = (
        filters["bucket"] in OPEN_BUCKETS or filters["quiet"] == "true" or bool(filters["changed"])
    )
    return recent and key == "created_at" and direction == "desc"


def sort_limit(form: Any) -> PlannerEstimate:
    """Return the number of rows and the cost up to which all rows are read and sorted, not walked.

    In the sort by status, the rows of a bucket come after all rows of other statuses. Sorting more
    of them is faster than skipping the others.
    """
    if form.sort[0] == "last_status" and form.cleaned_data["bucket"]:
        return PlannerEstimate(3 * QUICK_PLAN.rows, QUICK_PLAN.cost)
    return QUICK_PLAN


def likely_range(form: Any) -> Q | None:
    """Return the range of the sort with most of the matching rows; None if it is not known.

    It is known for a filter on one time with a sort by the other time, or by status and time.
    """
    sort, (until, since) = form.sort[0], ordered_until_and_updated_since(form.cleaned_data)
    if sort not in TIME_SORTS:
        return None
    return implied_by_usual_span(
        until if sort != "created_at" else None, since if sort != "updated_at" else None
    )


def likely_range_then_rest(
    near: Q,
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: CursorValues,
    descending: bool,
    most: int,
) -> KeysetQuery:
    """Return the query for the first keys, inside `near` along the index and outside of it.

    Most rows are inside `near`. The few other rows are read and sorted separately.
    """
    near_sql, near_parameters = keys_by_index_scan(
        rows.filter(near), columns, edge, descending, most
    )
    others = rows.filter(~near, STILL_UPDATED)
    elsewhere, these = keys_by_full_sort(others, columns, edge, descending, most)
    return f"({near_sql}) UNION ALL ({elsewhere})", (*near_parameters, *these)
