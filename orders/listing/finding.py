"""A page of the list of orders, and how many there are: the shortest way to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from backoffice import statements, vocabulary
from backoffice.counts import Count, capped_count
from backoffice.gathering import SOON, Expected, expected, gathered, up_to
from backoffice.keys import (
    Among,
    Edge,
    First,
    Sought,
    all_by_key,
    all_of,
    in_order,
    past,
    sorted_apart,
    walked,
)
from backoffice.paging import Page, Place, at_once, page_of
from orders.listing.rows import ORDERS, SHOWN
from orders.models import Order, OrderNameWord
from orders.models.name import at_the_first_names, first_of_names
from orders.models.order import CAN_GO_QUIET, STILL_UPDATED, OrderQuerySet, until_and_since, usually
from orders.today.counting import Counts, counts

FEW_NAMES: Final = 600
"""Words of names, whose numbers are told to the planner: it knows how many orders to expect."""
OPEN: Final = (*CAN_GO_QUIET, vocabulary.NEEDS_ACTION)
"""Buckets of orders that are not over yet: most are young."""
BY_MOMENT: Final = ("created_at", "updated_at", "last_status")
"""Sorts by when orders were ordered or updated, if behind a status."""
SHORT_TIME: Final = timedelta(days=32)
LATELY: Final = timedelta(days=3)
QUICK: Final = SOON.cost / 2
"""Beyond it, to find all who are called so takes longer than to walk to the first of them."""
LETTERS_OF_FEW: Final = 3
OF_FEW_NAMES: Final = 20_000
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
    statement = (
        f"SELECT {statements.columns(Order, SHOWN)} FROM orders_order"  # noqa: S608
        f"{past(columns, edge, descending)} ORDER BY {in_order(columns, descending)} LIMIT {most}"
    )
    return statements.read(Order, statement, edge or (), SHOWN)


def _looked_for(form: Any, size: int, place: Place) -> tuple[Count, Page[Order]]:
    rows, typed = _narrowed(form)
    everything, soon = ORDERS.everything(form.user), _soon(form)
    if _walks(form) or form.sort[0] == "patient_name":
        # Patients stand among all names whatever their orders are: the planner knows how far to go.
        soon = None
    if typed:
        few = _few_called(typed)
        if few is None:
            return _of_many_names(rows, typed, form, size, place)
        rows, soon = rows.filter(Among(F("names"), few)), None
        found = at_once(rows, form.keyset(), everything, size=size, most=OF_FEW_NAMES, **place)
        if found:
            return found
    counted = gathered(rows, everything, form.keyset(), soon=soon)
    if not counted.count.capped or counted.whole is not None:
        return counted.count, ORDERS.page(counted.rows, form, size, place, counted.whole)
    if not typed and _over_apart(form):
        rows, _ = _narrowed(form, along=True)
    return counted.count, page_of_many(rows, {}, form, size, place)


def _of_many_names(
    rows: OrderQuerySet, typed: Mapping[str, str], form: Any, size: int, place: Place
) -> tuple[Count, Page[Order]]:
    """To look up who is called so takes longer than all the rest: it is done once, for the page,
    and of a long list no more is said than that it goes on."""
    everything, sort, called = ORDERS.everything(form.user), form.keyset(), rows.called(typed)
    by_name, begins = form.sort[0] == "patient_name", not (place["after"] or place["before"])
    rare_result = _has_rare_result(form.cleaned_data)
    few = rare_result or _has_rare_status(form.cleaned_data) or _few_by_name(form)
    if few or (len(typed) == 1 and _quick(called, form)):
        # Beside rare results the index has the name, too.
        find = all_by_key if by_name and not rare_result else all_of
        found = at_once(called, sort, everything, size=size, most=SOON.rows, find=find, **place)
        if found:
            return found
    if _over_apart(form):
        rows, typed = _narrowed(form, along=True)
    page: Page[Order] = Page()
    if by_name and begins:
        first = partial(at_the_first_names, OrderNameWord.called(typed))
        page = page_of(rows, sort, size=size, whole=everything, first=first)
    if not page.next:
        page = page_of_many(rows, typed, form, size, place)
    if begins:
        return Count(len(page.rows), capped=page.next is not None), page
    return capped_count(called, size), page


def _walks(form: Any) -> bool:
    """Whether it is known that they are walked to."""
    return _over_apart(form) or _sorts_a_short_time(form) or _stands_first(form)


def _over_apart(form: Any) -> bool:
    """The planner takes what is over its usual time for independent of whatever else, and would
    expect far too few. By a moment these stand together, though, and may do so at the other end."""
    return form.cleaned_data["quiet"] == "true" and form.sort[0] in ("patient_name", "last_status")


def _quick(rows: QuerySet[Order], form: Any) -> bool:
    """Whether the planner thinks that it is quick to find them all. Where it is known that they are
    walked to, it is not asked: so are those of a short time, who stand together by each moment."""
    if _walks(form) or (form.sort[0] in BY_MOMENT and _short_times(form.cleaned_data)):
        return False
    guess = expected(rows, form.keyset().columns)
    return guess.rows <= _soon(form).rows and guess.cost <= QUICK


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


def _has_rare_status(asked: Mapping[str, Any]) -> bool:
    """Whether few orders are in such a status: those of many names are still found at once."""
    return bool(asked["status"]) and "completed" not in asked["status"]


def _has_rare_result(asked: Mapping[str, Any]) -> bool:
    """The same of their results."""
    return (
        asked["interpretation"] not in ("", "normal", "abnormal") or asked["is_critical"] == "true"
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
    rows, first = _way(rows, typed, form)
    whole = ORDERS.everything(form.user)
    return page_of(rows, form.keyset(), size=size, whole=whole, first=first, **place)


def _way(rows: OrderQuerySet, typed: Mapping[str, str], form: Any) -> tuple[OrderQuerySet, First]:
    if typed and form.sort[0] == "patient_name":
        return rows, partial(first_of_names, OrderNameWord.called(typed))
    near = _usual_place(form)
    rows = rows.called(typed, along=True) if typed else rows
    return rows, partial(_there_and_elsewhere, near) if near else walked


def _usual_place(form: Any) -> Q | None:
    """Where most of those stand that are in a time by one moment, sorted by the other or by one
    behind a status: the index leads there."""
    sort, (until, since) = form.sort[0], until_and_since(form.cleaned_data)
    if sort not in BY_MOMENT:
        return None
    return usually(until if sort != "created_at" else None, since if sort != "updated_at" else None)


def _there_and_elsewhere(
    near: Q,
    rows: QuerySet[Order],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> Sought:
    """Keys of the first where most stand, along the index of the sort, and of the first of the few
    others."""
    there, those = walked(rows.filter(near), columns, edge, descending, most)
    others = rows.filter(~near, STILL_UPDATED)
    elsewhere, these = sorted_apart(others, columns, edge, descending, most)
    return f"({there}) UNION ALL ({elsewhere})", (*those, *these)
