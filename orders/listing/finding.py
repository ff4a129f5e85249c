"""A page of the list of orders, and how many there are: the shortest way to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from backoffice import statements, vocabulary
from backoffice.paging import (
    COUNT_CAP,
    SOON,
    Among,
    Count,
    Edge,
    Expected,
    First,
    Page,
    Place,
    gathered,
    page_of,
    sorted_apart,
    up_to,
    walked,
)
from orders.listing.rows import ORDERS, SHOWN
from orders.models import Order, OrderNameWord
from orders.models.name import first_of_names
from orders.models.order import CAN_GO_QUIET, STILL_UPDATED, OrderQuerySet, until_and_since, usually
from orders.today.counting import Counts, counts

FEW_NAMES: Final = 600
"""Words of names, whose numbers are told to the planner: it knows how many orders to expect."""
OPEN: Final = (*CAN_GO_QUIET, vocabulary.NEEDS_ACTION)
"""Buckets of orders that are not over yet: most are young."""
CAP_OF_MANY_NAMES: Final = 100
"""To count more of their orders takes longer than to show them."""
SHORT_TIME: Final = timedelta(days=32)
LATELY: Final = timedelta(days=3)
LETTERS_OF_FEW: Final = 3
THEIRS: Final = Expected(rows=20_000, cost=math.inf)
"""Orders of a few names, found at once rather than walked to: a name may have thousands."""


COUNTED_BY: Final = frozenset({"status", "order_type"})
"""Filters by what orders are counted by as they change, beside their bucket."""


def known_counts(form: Any) -> Counts | None:
    """The counts of all orders, where nothing but their state narrows the list."""
    given = {name for name in form.filtering() if form.cleaned_data.get(name)}
    return counts() if given <= COUNTED_BY else None


def found(form: Any, size: int, place: Place, known: Counts | None) -> tuple[Count, Page[Order]]:
    """How many orders a valid form asks for, and a page of them. `known`: `known_counts`."""
    if known is None:
        return _looked_for(form, size, place)
    asked = form.cleaned_data
    number = known.of(bucket=asked["bucket"], statuses=asked["status"], methods=asked["order_type"])
    if not (asked["bucket"] or asked["status"] or asked["order_type"]):
        everything, sort = ORDERS.everything(form.user), form.keyset()
        read = partial(_of_all, sort.columns)
        page = page_of(everything, sort, size=size, read=read, **place)
        return Count(number), page
    whole = ORDERS.everything(form.user) if number <= _soon(form).rows else None
    rows = ORDERS.unworded(form, form.user)
    return Count(number), ORDERS.page(rows, form, size, place, whole)


def _of_all(
    columns: Sequence[str], _: QuerySet[Order], edge: Edge, most: int, descending: bool
) -> list[Order]:
    """The first of all orders beyond an edge, along the index of the sort."""
    sense, direction = ("<", "DESC") if descending else (">", "ASC")
    keys, beyond = ", ".join(columns), ""
    if edge is not None:
        beyond = f" WHERE ({keys}) {sense} ({', '.join(['%s'] * len(edge))})"
    order = ", ".join(f"{column} {direction}" for column in columns)
    statement = (
        f"SELECT {statements.columns(Order, SHOWN)} FROM orders_order{beyond}"  # noqa: S608
        f" ORDER BY {order} LIMIT {most}"
    )
    return statements.read(Order, statement, edge or (), SHOWN)


def _looked_for(form: Any, size: int, place: Place) -> tuple[Count, Page[Order]]:
    rows, typed = _narrowed(form)
    # The planner takes two boxes of words for independent and would expect far too few; so it does
    # of what is over its usual time and whatever else. By a moment these stand together, though,
    # and may do so at the other end.
    quiet = form.cleaned_data["quiet"] == "true" and form.sort[0] in ("patient_name", "last_status")
    walks = len(typed) > 1 or quiet or _sorts_a_short_time(form) or _stands_first(form)
    soon = None if walks else _soon(form)
    few = _few_called(typed) if typed else None
    if few is not None:
        rows, typed, soon = rows.filter(Among(F("names"), few)), {}, THEIRS
    everything = ORDERS.everything(form.user)
    called = rows.called(typed) if typed else rows
    cap = CAP_OF_MANY_NAMES if typed and not _rare(form.cleaned_data) else COUNT_CAP
    counted = gathered(called, everything, form.keyset(), cap, soon)
    whole = everything if typed and _few_by_name(form) else counted.whole
    if not counted.count.capped or whole is not None:
        return counted.count, ORDERS.page(counted.rows, form, size, place, whole)
    if quiet and few is None:
        rows, typed = _narrowed(form, along=True)
    return counted.count, page_of_many(rows, typed, form, size, place)


def _narrowed(form: Any, *, along: bool = False) -> tuple[OrderQuerySet, dict[str, str]]:
    """All but the names that were typed; and these."""
    rows = ORDERS.unworded(form, form.user, along=along)
    return rows.numbered(form.cleaned_data, by_name=form.by_name)


def _few_called(typed: Mapping[str, str]) -> str | None:
    """The numbers of the names that begin so, as PostgreSQL writes an array; None: too many. Of one
    or two letters there are, and nobody looks."""
    if len("".join(typed.values()).strip()) < LETTERS_OF_FEW:
        return None
    count, names = up_to(OrderNameWord.called(typed).values("names"), FEW_NAMES)
    return names if count <= FEW_NAMES else None


def _rare(asked: Mapping[str, Any]) -> bool:
    """Whether few orders are in such a state: those of many names are still found at once."""
    return (
        (bool(asked["status"]) and "completed" not in asked["status"])
        or asked["interpretation"] not in ("", "normal", "abnormal")
        or asked["is_critical"] == "true"
    )


def _few_by_name(form: Any) -> bool:
    """Whether so few were ordered or changed lately that it is quick to sort them by name: those
    who are called so have many more orders, one after the other."""
    asked = form.cleaned_data
    begun = [asked["start_date"], asked["updated_start_date"]]
    begun += [asked[name][0] for name in ("ordered", "changed") if asked[name]]
    latest = max((each for each in begun if each), default=None)
    return (
        form.sort[0] == "patient_name" and latest is not None and timezone.now() - latest <= LATELY
    )


def _sorts_a_short_time(form: Any) -> bool:
    """Whether all stand close together where the list begins: they are walked to, not all found."""
    asked = form.cleaned_data
    first, last = {
        "created_at": asked["ordered"] or (asked["start_date"], asked["end_date"]),
        "updated_at": asked["changed"] or (asked["updated_start_date"], asked["updated_end_date"]),
    }.get(form.sort[0], (None, None))
    return first is not None and last is not None and last - first <= SHORT_TIME


def _stands_first(form: Any) -> bool:
    """Whether they stand where the list begins: what is open or has just changed among the newest,
    and those of a bucket by their updates in an index of their own."""
    asked, (key, direction) = form.cleaned_data, form.sort
    if key == "updated_at":
        return bool(asked["bucket"])
    recent = asked["bucket"] in OPEN or asked["quiet"] == "true" or bool(asked["changed"])
    return recent and key == "created_at" and direction == "desc"


def _soon(form: Any) -> Expected:
    """How many rows may be found at once and sorted, rather than walked to.

    By status, those of a bucket stand behind all of other statuses: more of them are sorted sooner
    than the others are passed over.
    """
    if form.sort[0] == "last_status" and form.cleaned_data["bucket"]:
        return Expected(3 * SOON.rows, SOON.cost)
    return SOON


def page_of_many(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any, size: int, place: Place
) -> Page[Order]:
    """A page of a list of which no more is known than that it is long. Of those who are called so
    the names are found first: orders are told by these as they are walked, or by name taken from
    one name after the other. Of those in a time by one moment, sorted by another, most are looked
    for where they usually stand. Those over their usual time are told inside the index, too."""
    near = _usual_place(form)
    if not (near or form.cleaned_data["quiet"] or form.searched()):
        return ORDERS.page(rows, form, size, place)
    first: First = partial(_there_and_elsewhere, near) if near else walked
    if typed and form.sort[0] == "patient_name":
        first = partial(first_of_names, OrderNameWord.called(typed))
    elif typed:
        rows = rows.called(typed, along=True)
    whole = ORDERS.everything(form.user)
    return page_of(rows, form.keyset(), size=size, whole=whole, first=first, **place)


def _usual_place(form: Any) -> Q | None:
    """Where most of those stand that are in a time by one moment, sorted by the other or by one
    behind a status: the index leads there."""
    sort, (until, since) = form.sort[0], until_and_since(form.cleaned_data)
    if sort not in ("created_at", "updated_at", "last_status"):
        return None
    return usually(until if sort != "created_at" else None, since if sort != "updated_at" else None)


def _there_and_elsewhere(
    near: Q,
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> QuerySet[Order, Any]:
    """Keys of the first where most stand, along the index of the sort, and of the first of the few
    others."""
    there: QuerySet[Order, Any] = walked(rows.filter(near), columns, edge, descending, most)
    others = rows.filter(~near, STILL_UPDATED)
    return there.union(sorted_apart(others, columns, edge, descending, most), all=True)
