"""What a form tells of where its orders stand, and so how they are found the soonest: all at once,
or walked to along the index of the sort."""

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

OPEN: Final = (*CAN_GO_QUIET, vocabulary.NEEDS_ACTION)
"""Buckets of orders that are not over yet: most are young."""
BY_MOMENT: Final = ("created_at", "updated_at", "last_status")
"""Sorts by when orders were ordered or updated, if behind a status."""
SHORT_TIME: Final = timedelta(days=32)
LATELY: Final = timedelta(days=3)
QUICK: Final = QUICK_PLAN.cost / 2
"""Beyond it, to find all who are called so takes longer than to walk to the first of them."""


def sorts_by_name(form: Any) -> bool:
    """Patients stand among all names whatever their orders are: the planner, who takes the one for
    independent of the other, knows how far there is to walk."""
    return bool(form.sort[0] == "patient_name")


def is_walked(form: Any) -> bool:
    """Whether it is known that they are walked to."""
    return is_over_apart(form) or _sorts_a_short_time(form) or _stands_first(form)


def is_over_apart(form: Any) -> bool:
    """The planner takes what is over its usual time for independent of whatever else, and would
    expect far too few. By a moment these stand together, though, and may do so at the other end."""
    return form.cleaned_data["quiet"] == "true" and form.sort[0] in ("patient_name", "last_status")


def is_quick(rows: QuerySet[Order], form: Any) -> bool:
    """Whether the planner thinks that it is quick to find them all who are called so."""
    guess = planner_estimate(rows, form.keyset().columns)
    return guess.rows <= soon(form).rows and guess.cost <= QUICK


def has_few(form: Any) -> bool:
    """Whether so few orders are in such a state, or new, that those of many names are still found
    at once."""
    asked = form.cleaned_data
    rare_status = bool(asked["status"]) and "completed" not in asked["status"]
    rare = rare_status or asked["bucket"] == vocabulary.NEEDS_ACTION or has_rare_result(form)
    return rare or (sorts_by_name(form) and _is_late(asked))


def has_rare_result(form: Any) -> bool:
    asked = form.cleaned_data
    return (
        asked["interpretation"] not in ("", "normal", "abnormal") or asked["is_critical"] == "true"
    )


def _is_late(asked: Mapping[str, Any]) -> bool:
    """Whether so few were ordered or changed since that it is quick to sort them by name: those who
    are called so have many more orders, one after the other."""
    begun = [asked["start_date"], asked["updated_start_date"]]
    begun += [asked[name][0] for name in ("ordered", "changed") if asked[name]]
    latest = max((each for each in begun if each), default=None)
    return latest is not None and timezone.now() - latest <= LATELY


def _sorts_a_short_time(form: Any) -> bool:
    """Whether all stand close together where the list begins: they are walked to, not all found."""
    return form.sort[0] in _short_times(form.cleaned_data)


def _short_times(asked: Mapping[str, Any]) -> set[str]:
    """The moments of orders that are asked for from a short time."""
    times = {
        "created_at": asked["ordered"] or (asked["start_date"], asked["end_date"]),
        "updated_at": asked["changed"] or (asked["updated_start_date"], asked["updated_end_date"]),
    }
    return {
        moment
        for moment, (first, last) in times.items()
        if first is not None and last is not None and last - first <= SHORT_TIME
    }


def _stands_first(form: Any) -> bool:
    """Whether they stand where the list begins: what is open or has just changed among the newest,
    and those of a bucket by their updates in an index of their own."""
    asked, (key, direction) = form.cleaned_data, form.sort
    if key == "updated_at":
        return bool(asked["bucket"])
    recent = asked["bucket"] in OPEN or asked["quiet"] == "true" or bool(asked["changed"])
    return recent and key == "created_at" and direction == "desc"


def soon(form: Any) -> PlannerEstimate:
    """How many rows may be found at once and sorted, rather than walked to.

    By status, those of a bucket stand behind all of other statuses: more of them are sorted sooner
    than the others are passed over.
    """
    if form.sort[0] == "last_status" and form.cleaned_data["bucket"]:
        return PlannerEstimate(3 * QUICK_PLAN.rows, QUICK_PLAN.cost)
    return QUICK_PLAN


def usual_place(form: Any) -> Q | None:
    """Where most of those stand that are in a time by one moment, sorted by the other or by one
    behind a status: the index leads there."""
    sort, (until, since) = form.sort[0], ordered_until_and_updated_since(form.cleaned_data)
    if sort not in BY_MOMENT:
        return None
    return implied_by_usual_span(
        until if sort != "created_at" else None, since if sort != "updated_at" else None
    )


def there_and_elsewhere(
    near: Q,
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: CursorValues,
    descending: bool,
    most: int,
) -> KeysetQuery:
    """Keys of the first where most stand, along the index of the sort, and of the first of the few
    others."""
    there, those = keys_by_index_scan(rows.filter(near), columns, edge, descending, most)
    others = rows.filter(~near, STILL_UPDATED)
    elsewhere, these = keys_by_full_sort(others, columns, edge, descending, most)
    return f"({there}) UNION ALL ({elsewhere})", (*those, *these)
