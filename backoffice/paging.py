"""Keyset pages: any depth costs the same, and rows that arrive meanwhile never shift a page.

A cursor holds the sort values of the row at the page's edge. Where one of them would put a
person's name into the address, the cursor holds the row's key alone and the value is looked up.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypedDict, TypeVar

from django.core.exceptions import EmptyResultSet, ValidationError
from django.db import connection
from django.db.models import (
    Case,
    F,
    Func,
    Lookup,
    Model,
    OrderBy,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan
from django.http import HttpRequest

from backoffice import statements

Row = TypeVar("Row", bound=Model)
Edge = tuple[Any, ...] | None
First = Callable[[QuerySet[Any], Sequence[str], Edge, bool, int], Any]
"""Keys of the first rows beyond an edge: rows, columns of the sort, edge, whether it is descending,
how many at most."""

COUNT_CAP: Final = 500


class Expected(NamedTuple):
    """How many rows the planner expects, and what it would cost to find them all, in its units."""

    rows: int
    cost: float


SOON: Final = Expected(rows=5_000, cost=2_000.0)
"""What is found and sorted in a few milliseconds."""


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


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows match, counted no further than a cap: prints `500+` beyond it."""

    value: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.capped else ''}"


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
    """One page of `rows`: one query, plus one by key for a private cursor, plus what `first` asks.

    `whole`: all rows. Then the keys of those on the page are found first, and their rows are read
    by these: `first` finds them. Without `first`, few rows match: all of these are found by what
    they are filtered by and sorted, in an index that has it all if there is one. No index of the
    sort is walked to look for them: they may all stand at its other end.

    `read(rows, edge, most, descending)`, where there is a shorter way to them, finds the first
    `most` rows beyond the `edge`.
    A cursor that cannot be read, or whose row is gone, starts from the first page.
    """
    edge = _decode(rows, sort, after or before)
    backwards = edge is not None and not after
    descending = sort.descending != backwards
    if read is not None:
        found = list(read(rows, edge, size + 1, descending))
    elif whole is not None:
        keys = (first or sorted_apart)(rows, sort.columns, edge, descending, size + 1)
        found = _with_keys(whole, keys, sort.columns, descending, size + 1)
    else:
        columns = [F(name) for name in sort.columns]
        found = list(_beyond(rows, columns, edge, descending)[: size + 1])
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


def _with_keys(
    whole: QuerySet[Row], keys: Any, by: Sequence[str], descending: bool, most: int
) -> list[Row]:
    """Rows by their keys, sorted: one statement around the one that finds the keys. Django takes as
    long to compose it as PostgreSQL to answer it, so it does only where `whole` is no plain table.
    """
    query, model = whole.query, whole.model
    if query.where or query.select_related or query.annotations or isinstance(keys, list):
        return list(
            _beyond(whole.filter(pk__in=keys), [F(name) for name in by], None, descending)[:most]
        )
    try:
        sought, values = keys.query.sql_with_params()
    except EmptyResultSet:
        return []
    told, deferred = query.deferred_loading
    names, but = ((), tuple(sorted(told))) if deferred else (tuple(sorted(told)), ())
    direction = "DESC" if descending else "ASC"
    order = ", ".join(f"{_column(model, name)} {direction}" for name in by)
    statement = (
        f"SELECT {statements.columns(model, names, but)} FROM {model._meta.db_table}"  # noqa: S608
        f" WHERE {_column(model, model._meta.pk.name)} IN ({sought}) ORDER BY {order} LIMIT {most}"
    )
    return statements.read(model, statement, values, names, but, planned=False)


def _column(model: type[Model], name: str) -> str:
    return f"{model._meta.db_table}.{model._meta.get_field(name).column}"  # type: ignore[union-attr]


def _beyond(
    rows: QuerySet[Row], keys: Sequence[Any], edge: Edge, descending: bool
) -> QuerySet[Row]:
    """Rows sorted by these keys, from the edge on."""
    if edge is not None:
        lookup = TupleLessThan if descending else TupleGreaterThan
        rows = rows.filter(lookup(keys, edge))
    return rows.order_by(*(OrderBy(key, descending=descending) for key in keys))


def unguessed(condition: Q) -> Case:
    """A condition of which the planner makes no guess: about half of the rows, whatever it asks."""
    return Case(When(condition, then=Value(True)), default=Value(False))


EVERYBODY: Final = 2**31 - 1
"""A limit that nothing comes to: behind it rows are found, or sorted, before anything else is.
Without it PostgreSQL may take up one row after the other and look whether it is among them."""


class _Plain(Func):
    """A column as no index has it: what is sorted by it is not read in the order of an index. The
    greatest of one value is that value, which PostgreSQL does not see through."""

    function = "GREATEST"
    arity = 1


def sorted_apart(
    rows: QuerySet[Any], columns: Sequence[str], edge: Edge, descending: bool, most: int
) -> QuerySet[Any, Any]:
    first, *rest = columns
    return _keys([_Plain(first), *map(F, rest)], rows, edge, descending, most)


def walked(
    rows: QuerySet[Any], columns: Sequence[str], edge: Edge, descending: bool, most: int
) -> QuerySet[Any, Any]:
    """Along the index of the sort, which has what rows are filtered by. Where the rows themselves
    are asked for, each is read before it is passed over."""
    return _keys([F(name) for name in columns], rows, edge, descending, most)


def _keys(
    by: Sequence[Any], rows: QuerySet[Any], edge: Edge, descending: bool, most: int
) -> QuerySet[Any, Any]:
    return _beyond(rows, by, edge, descending).values("pk")[:most]


@dataclass(frozen=True, slots=True)
class Gathered(Generic[Row]):
    """Rows that match and how many; `whole` for `page_of`, where it is quick to find them all."""

    rows: QuerySet[Row]
    count: Count
    whole: QuerySet[Row] | None


def gathered(
    rows: QuerySet[Row],
    whole: QuerySet[Row],
    sort: Sort,
    cap: int = COUNT_CAP,
    soon: Expected | None = SOON,
) -> Gathered[Row]:
    """Those of the `whole` that match: one query, and a question to the planner about many: are all
    of them found and sorted `soon`? Without that it is not asked.

    Up to a cap they are looked for once: then they are rows with the keys that were found, whatever
    it took to find them. The keys stay as the database wrote them: hundreds need no turning into
    values and back.
    """
    count, keys = up_to(rows.order_by().values("pk"), cap)
    if not count:
        return Gathered(whole.none(), Count(0), None)
    if count <= cap:
        return Gathered(whole.filter(Among(F("pk"), keys)), Count(count), whole)
    quick = False
    if soon and rows.query.where:
        guess = expected(rows, sort.columns)
        # Who expects fewer than were counted is wrong about what it costs, too.
        quick = cap < guess.rows <= soon.rows and guess.cost <= soon.cost
    return Gathered(rows, Count(cap, capped=True), whole if quick else None)


def up_to(keys: QuerySet[Any, Any], most: int) -> tuple[int, str]:
    """How many rows of one column there are, and their values as `Among` takes them; of more than
    `most` no values, and one more as their number."""
    try:
        query, values = keys[: most + 1].query.sql_with_params()
    except EmptyResultSet:
        return 0, "{}"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), CASE WHEN count(*) <= %s THEN array_agg(key)::text END"
            f" FROM ({query}) AS gathered (key)",
            [most, *values],
        )
        count, found = cursor.fetchone()
    return count, found or "{}"


def expected(rows: QuerySet[Any], columns: Sequence[str] = ()) -> Expected:
    """The planner's guess: it looks at no row. `columns` are read of them, beside the key."""
    try:
        query, values = rows.order_by().values("pk", *columns).query.sql_with_params()
    except EmptyResultSet:
        return Expected(0, 0.0)  # What cannot be is not asked.
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT json) {query}", values)
        plan = cursor.fetchone()[0][0]["Plan"]
    return Expected(plan["Plan Rows"], plan["Total Cost"])


class Among(Lookup):
    """Whether a column is one of the keys of an array in the database's own words."""

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        column, values = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", [*values, self.rhs]


def capped_count(rows: QuerySet[Any], cap: int = COUNT_CAP) -> Count:
    """Count at most `cap` rows; one query that stops there."""
    found = rows.order_by().values("pk")[: cap + 1].count()
    return Count(min(found, cap), capped=found > cap)


def capped_counts(*sets: QuerySet[Any], cap: int = COUNT_CAP) -> list[Count]:
    """Each of these counted like by `capped_count`, all in one query."""
    return counted(*counting([rows.order_by() for rows in sets], cap), cap)


def counting(sets: Iterable[QuerySet[Any]], cap: int) -> tuple[list[str], list[Any]]:
    """What `counted` asks, for those who keep it: making it takes longer than answering it. Each is
    counted along the order it has: the index of that order ends it early."""
    parts: list[str] = []
    values: list[Any] = []
    for rows in sets:
        try:
            query, given = rows.values("pk")[: cap + 1].query.sql_with_params()
        except EmptyResultSet:
            parts.append("0")
            continue
        parts.append(f"(SELECT count(*) FROM ({query}) AS capped)")
        values += given
    return parts, values


def counted(parts: Sequence[str], values: Sequence[Any], cap: int) -> list[Count]:
    if not parts:
        return []
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", values)
        found = cursor.fetchone()
    return [Count(min(count, cap), capped=count > cap) for count in found]


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
        if not all(_storable(value) for value in raw if isinstance(value, str)):
            return None
        fields = [rows.model._meta.get_field(name) for name in columns]
        values = tuple(f.to_python(value) for f, value in zip(fields, raw, strict=True))  # type: ignore[union-attr]
    except (ValueError, binascii.Error, ValidationError, TypeError, OverflowError, RecursionError):
        return None
    if not sort.private:
        return values
    own = [rows.model._meta.get_field(name) for name in sort.columns]
    known = statements.where(rows.model, f"{own[-1].column} = %s", values, tuple(sort.columns))  # type: ignore[union-attr]
    return tuple(getattr(known[0], one.attname) for one in own) if known else None  # type: ignore[union-attr]


def _storable(text: str) -> bool:
    """False for what PostgreSQL takes in no text: NUL and halves of surrogate pairs."""
    return not any(mark == "\x00" or "\ud800" <= mark <= "\udfff" for mark in text)
