"""Keyset pages: any depth costs the same, and new rows never shift a page.

A cursor holds the sort values of the first or last row of a page. If one of them would put a
person's name into the URL, the cursor holds the key of that row only, and the values are looked up.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypedDict

from django.core.exceptions import EmptyResultSet, ValidationError
from django.db.models import F, Model, QuerySet
from django.http import HttpRequest

from backoffice.core import prepared_queries
from backoffice.core.text import is_storable
from backoffice.pages.paging.counts import COUNT_CAP, Count
from backoffice.pages.paging.keys import (
    CursorValues,
    KeysetQuery,
    KeysetQueryBuilder,
    Row,
    column_field,
    fetch_rows,
    fetch_rows_and_count,
    keys_by_full_sort,
    keys_unsorted,
    rows_from_cursor,
)


@dataclass(frozen=True, slots=True)
class Sort:
    """Columns to sort by, all in one direction. The last one is unique; none may be null.

    `private` keeps their values out of the cursor.
    """

    columns: Sequence[str]
    descending: bool = False
    private: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """Rows of one page and the cursors of the next and previous pages; None where there is none."""

    rows: list[Row] = field(default_factory=list)
    next: str | None = None
    previous: str | None = None


class PagePosition(TypedDict):
    """Where a page begins: after or before an encoded cursor, or at the start of the list."""

    after: str | None
    before: str | None


def page_position(request: HttpRequest) -> PagePosition:
    """Read the position from the URL."""
    return {"after": request.GET.get("after"), "before": request.GET.get("before")}


def fetch_page(
    rows: QuerySet[Row],
    sort: Sort,
    *,
    size: int,
    after: str | None = None,
    before: str | None = None,
    read: Callable[..., Iterable[Row]] | None = None,
    all_rows: QuerySet[Row] | None = None,
    build_query: KeysetQueryBuilder | None = None,
) -> Page[Row]:
    """Return one page of `rows`: one query, and one more by key for a private cursor.

    With `all_rows` (the same rows without filters), `build_query` finds the keys of the page inside
    an index, and the rows are read by their keys. The default builder, `keys_by_full_sort`, suits
    filters that few rows match.

    `read(rows, cursor, limit, descending)` replaces both where the caller has a shorter way to the
    first `limit` rows behind the cursor.

    A cursor that cannot be decoded, or that names a deleted row, leads to the first page.
    """
    cursor, backwards = _decode_position(rows, sort, after, before)
    descending = sort.descending != backwards
    if read is not None:
        fetched = list(read(rows, cursor, size + 1, descending))
    elif all_rows is not None:
        try:
            query = (build_query or keys_by_full_sort)(
                rows, sort.columns, cursor, descending, size + 1
            )
        except EmptyResultSet:
            return Page()
        fetched = fetch_rows(all_rows, query, sort.columns, descending, size + 1)
    else:
        columns = [F(name) for name in sort.columns]
        fetched = list(rows_from_cursor(rows, columns, cursor, descending)[: size + 1])
    return _build_page(fetched, sort, size, cursor, backwards=backwards)


def fetch_page_and_count(
    rows: QuerySet[Row],
    sort: Sort,
    all_rows: QuerySet[Row],
    *,
    size: int,
    limit: int,
    build_query: Callable[[QuerySet[Model], Sequence[str], int], KeysetQuery] = keys_unsorted,
    after: str | None = None,
    before: str | None = None,
) -> tuple[Count, Page[Row]] | None:
    """Return the number of matching rows and one page of them.

    One statement finds and sorts all of them. Returns None where more than `limit` rows match.
    """
    cursor, backwards = _decode_position(rows, sort, after, before)
    descending = sort.descending != backwards
    try:
        query = build_query(rows, sort.columns, limit + 1)
    except EmptyResultSet:
        return Count(0), Page()
    fetched, number = fetch_rows_and_count(
        all_rows, query, sort.columns, cursor, descending, size + 1
    )
    if not fetched and cursor is not None:
        number = rows.order_by().values("pk")[: limit + 1].count()
    if number > limit:
        return None
    return Count.with_cap(number, COUNT_CAP), _build_page(
        fetched, sort, size, cursor, backwards=backwards
    )


def _decode_position(
    rows: QuerySet[Row], sort: Sort, after: str | None, before: str | None
) -> tuple[CursorValues, bool]:
    """Return the cursor and whether the page is read backwards from it."""
    cursor = _decode_cursor(rows, sort, after or before)
    return cursor, cursor is not None and not after


def _build_page(
    fetched: list[Row], sort: Sort, size: int, cursor: CursorValues, *, backwards: bool
) -> Page[Row]:
    """Build a page from up to `size + 1` rows: the extra row shows that there is another page."""
    has_more, fetched = len(fetched) > size, fetched[:size]
    if backwards:
        fetched.reverse()
    if not fetched:
        return Page()
    return Page(
        fetched,
        next=_encode_cursor(fetched[-1], sort) if has_more or backwards else None,
        previous=_encode_cursor(fetched[0], sort)
        if (has_more if backwards else cursor is not None)
        else None,
    )


def _encode_cursor(row: Model, sort: Sort) -> str:
    columns = sort.columns[-1:] if sort.private else sort.columns
    # A foreign key gives its key, not the related object.
    values = [getattr(row, column_field(type(row), name).attname) for name in columns]
    text = json.dumps(
        [value.isoformat() if hasattr(value, "isoformat") else value for value in values],
        default=str,
        separators=(",", ":"),
    )
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decode_cursor(rows: QuerySet[Row], sort: Sort, cursor: str | None) -> CursorValues:
    """Return the values of a cursor from a URL; None where it is missing, malformed or outdated."""
    if not cursor or len(cursor) > 500:
        return None
    columns = list(sort.columns[-1:] if sort.private else sort.columns)
    try:
        raw = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(raw, list) or len(raw) != len(columns) or None in raw:
            return None
        if not all(is_storable(value) for value in raw if isinstance(value, str)):
            return None
        fields = [column_field(rows.model, name) for name in columns]
        values = tuple(f.to_python(value) for f, value in zip(fields, raw, strict=True))
    except (ValueError, binascii.Error, ValidationError, TypeError, OverflowError, RecursionError):
        return None
    if not sort.private:
        return values
    sort_fields = [column_field(rows.model, name) for name in sort.columns]
    condition = f"{sort_fields[-1].column} = %s"
    found = prepared_queries.where(rows.model, condition, values, tuple(sort.columns))
    return tuple(getattr(found[0], field.attname) for field in sort_fields) if found else None
