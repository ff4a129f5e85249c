"""Keyset pages: any depth costs the same, and new rows never shift a page.

A cursor holds the sort values of the first or last row of a page. If one of them would put a
person's name into the URL, the cursor holds the key of that row only, and the values are looked up.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import F, Field, Model, OrderBy, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan
from django.http import HttpRequest

from backoffice.core import prepared_queries
from backoffice.core.text import is_storable

Row = TypeVar("Row", bound=Model)
Cursor = tuple[object, ...] | None
"""Values of the sort columns after which, or before which, a page begins; None for the start."""


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
) -> Page[Row]:
    """Return one page of `rows`: one query, and one more by key for a private cursor.

    A cursor that cannot be decoded, or that names a deleted row, leads to the first page. So does a
    `before` that has too few rows to fill a page.
    """
    cursor, descending = page_start(rows, sort, after=after, before=before)
    backwards = descending != sort.descending
    # The extra row shows that there is another page.
    fetched = list(_first_rows(rows, sort.columns, cursor, size + 1, descending))
    has_more, fetched = len(fetched) > size, fetched[:size]
    if backwards and len(fetched) < size:
        return fetch_page(rows, sort, size=size)
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


def page_start(
    rows: QuerySet[Row], sort: Sort, *, after: str | None, before: str | None
) -> tuple[Cursor, bool]:
    """Return the cursor where a page begins, and whether it is read in descending order."""
    cursor = _decode_cursor(rows, sort, after or before)
    backwards = cursor is not None and not after
    return cursor, sort.descending != backwards


def _first_rows(
    rows: QuerySet[Row], columns: Sequence[str], cursor: Cursor, limit: int, descending: bool
) -> QuerySet[Row]:
    """Return the first rows behind a cursor."""
    sort = [F(name) for name in columns]
    if cursor is not None:
        lookup = TupleLessThan if descending else TupleGreaterThan
        rows = rows.filter(lookup(sort, cursor))
    return rows.order_by(*(OrderBy(column, descending=descending) for column in sort))[:limit]


def _encode_cursor(row: Model, sort: Sort) -> str:
    columns = sort.columns[-1:] if sort.private else sort.columns
    # A foreign key gives its key, not the related object.
    values = [getattr(row, _field(type(row), name).attname) for name in columns]
    if None in values:
        # The next page would be the first one again.
        raise ValueError(f"a list sorted by {', '.join(sort.columns)} has a row without a value")
    text = json.dumps(
        [value.isoformat() if hasattr(value, "isoformat") else value for value in values],
        default=str,
        separators=(",", ":"),
    )
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decode_cursor(rows: QuerySet[Row], sort: Sort, cursor: str | None) -> Cursor:
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
        fields = [_field(rows.model, name) for name in columns]
        values = tuple(f.to_python(value) for f, value in zip(fields, raw, strict=True))
    except (ValueError, binascii.Error, ValidationError, TypeError, OverflowError, RecursionError):
        return None
    if not sort.private:
        return values
    sort_fields = [_field(rows.model, name) for name in sort.columns]
    condition = f"{sort_fields[-1].column} = %s"
    found = prepared_queries.where(rows.model, condition, values, tuple(sort.columns))
    return tuple(getattr(found[0], field.attname) for field in sort_fields) if found else None


def _field(model: type[Model], name: str) -> Field[Any, Any]:
    """Return the field of a sort column; `pk` is the primary key."""
    field = model._meta.pk if name == "pk" else model._meta.get_field(name)
    assert isinstance(field, Field)
    return field
