"""Keyset pages: any depth costs the same, and rows that arrive meanwhile never shift a page.

A cursor holds the sort values of the row at the page's edge. Where one of them would put a
person's name into the address, the cursor holds the row's key alone and the value is looked up.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict

from django.core.exceptions import EmptyResultSet, ValidationError
from django.db.models import F, Model, QuerySet
from django.http import HttpRequest

from backoffice.core import prepared_queries
from backoffice.core.text import is_storable
from backoffice.pages.paging.counts import COUNT_CAP, Count
from backoffice.pages.paging.keys import (
    Edge,
    First,
    Row,
    Sought,
    all_of,
    beyond,
    rows_and_number_of,
    rows_of,
    sorted_apart,
)


@dataclass(frozen=True, slots=True)
class Sort:
    """Columns to sort by, all in one direction, the last one unique; none may be null.

    `private` keeps the values out of the cursor.
    """

    columns: Sequence[str]
    descending: bool = False
    private: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Rows of one page and the cursors of its neighbours (None: there is none)."""

    rows: list[Row] = field(default_factory=list)
    next: str | None = None
    previous: str | None = None


class Place(TypedDict):
    """Where in a list a page is: behind or before a cursor, or at the start."""

    after: str | None
    before: str | None


def place_of(request: HttpRequest) -> Place:
    return {"after": request.GET.get("after"), "before": request.GET.get("before")}


def page_of(
    rows: QuerySet[Row],
    sort: Sort,
    *,
    size: int,
    after: str | None = None,
    before: str | None = None,
    read: Callable[..., Iterable[Row]] | None = None,
    whole: QuerySet[Row] | None = None,
    first: First | None = None,
) -> Page[Row]:
    """One page of `rows`: one query, plus one by key for a private cursor.

    `whole`: all rows. Then those on the page are read by their keys, which `first` finds inside an
    index. Without `first` few rows match, and are `sorted_apart`.

    `read(rows, edge, most, descending)`, where there is a shorter way to them, finds the first
    `most` rows beyond the `edge`.
    A cursor that cannot be read, or whose row is gone, starts from the first page.
    """
    edge, backwards = _place(rows, sort, after, before)
    descending = sort.descending != backwards
    if read is not None:
        found = list(read(rows, edge, size + 1, descending))
    elif whole is not None:
        try:
            sought = (first or sorted_apart)(rows, sort.columns, edge, descending, size + 1)
        except EmptyResultSet:
            return Page()
        found = rows_of(whole, sought, sort.columns, descending, size + 1)
    else:
        columns = [F(name) for name in sort.columns]
        found = list(beyond(rows, columns, edge, descending)[: size + 1])
    return _page(found, sort, size, edge, backwards=backwards)


def at_once(
    rows: QuerySet[Row],
    sort: Sort,
    whole: QuerySet[Row],
    *,
    size: int,
    most: int,
    find: Callable[[QuerySet[Any], Sequence[str], int], Sought] = all_of,
    after: str | None = None,
    before: str | None = None,
) -> tuple[Count, Page[Row]] | None:
    """A page and how many match, by one statement that finds and sorts them all; None where there
    are more than `most`."""
    edge, backwards = _place(rows, sort, after, before)
    descending = sort.descending != backwards
    try:
        sought = find(rows, sort.columns, most + 1)
    except EmptyResultSet:
        return Count(0), Page()
    found, number = rows_and_number_of(whole, sought, sort.columns, edge, descending, size + 1)
    if not found and edge is not None:
        number = rows.order_by().values("pk")[: most + 1].count()
    if number > most:
        return None
    return Count.of(number, COUNT_CAP), _page(found, sort, size, edge, backwards=backwards)


def _place(
    rows: QuerySet[Row], sort: Sort, after: str | None, before: str | None
) -> tuple[Edge, bool]:
    """The edge a page begins at, and whether it is read backwards from there."""
    edge = _decode(rows, sort, after or before)
    return edge, edge is not None and not after


def _page(found: list[Row], sort: Sort, size: int, edge: Edge, *, backwards: bool) -> Page[Row]:
    """Of rows from an edge on, one more than the page has where there is one."""
    more, found = len(found) > size, found[:size]
    if backwards:
        found.reverse()
    if not found:
        return Page()
    return Page(
        found,
        next=_encode(found[-1], sort) if more or backwards else None,
        previous=_encode(found[0], sort) if (more if backwards else edge is not None) else None,
    )


def _encode(row: Model, sort: Sort) -> str:
    columns = sort.columns[-1:] if sort.private else sort.columns
    # Of a relation its key.
    values = [getattr(row, row._meta.get_field(name).attname) for name in columns]  # type: ignore[union-attr]
    text = json.dumps(
        [value.isoformat() if hasattr(value, "isoformat") else value for value in values],
        default=str,
        separators=(",", ":"),
    )
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decode(rows: QuerySet[Row], sort: Sort, cursor: str | None) -> tuple[Any, ...] | None:
    if not cursor or len(cursor) > 500:
        return None
    columns = list(sort.columns[-1:] if sort.private else sort.columns)
    try:
        raw = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(raw, list) or len(raw) != len(columns) or None in raw:
            return None
        if not all(is_storable(value) for value in raw if isinstance(value, str)):
            return None
        fields = [rows.model._meta.get_field(name) for name in columns]
        values = tuple(f.to_python(value) for f, value in zip(fields, raw, strict=True))  # type: ignore[union-attr]
    except (ValueError, binascii.Error, ValidationError, TypeError, OverflowError, RecursionError):
        return None
    if not sort.private:
        return values
    own = [rows.model._meta.get_field(name) for name in sort.columns]
    condition = f"{own[-1].column} = %s"  # type: ignore[union-attr]
    known = prepared_queries.where(rows.model, condition, values, tuple(sort.columns))
    return tuple(getattr(known[0], one.attname) for one in own) if known else None  # type: ignore[union-attr]
