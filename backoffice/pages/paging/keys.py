"""Rows by their keys: the keys of a page are found first, inside an index, and its rows then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from django.db.models import Case, F, Func, Lookup, Model, OrderBy, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan

from backoffice.core import prepared_queries

Row = TypeVar("Row", bound=Model)
Edge = tuple[Any, ...] | None
"""Values of the sort at which a page begins, behind or before them; None: at the start."""
Sought = tuple[str, Sequence[Any]]
"""A statement that finds keys, each with the columns of the sort behind it; and its values."""
First = Callable[[QuerySet[Any], Sequence[str], Edge, bool, int], Sought]
"""The first rows beyond an edge: rows, columns of the sort, edge, whether it is descending, how
many at most."""

EVERYBODY: Final = 2**31 - 1
"""A limit that nothing comes to: behind it rows are found, or sorted, before anything else is.
Without it PostgreSQL may take up one row after the other and look whether it is among them."""


def unguessed(condition: Q) -> Case:
    """A condition of which the planner makes no guess: about half of the rows, whatever it asks."""
    return Case(When(condition, then=Value(True)), default=Value(False))


class Among(Lookup):
    """Whether a column is one of the keys of an array in the database's own words."""

    lookup_name = "among"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        column, values = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", [*values, self.rhs]


class _Plain(Func):
    """A column as no index has it: what is sorted by it is not read in the order of an index. The
    greatest of one value is that value, which PostgreSQL does not see through."""

    function = "GREATEST"
    arity = 1


def all_of(rows: QuerySet[Any], columns: Sequence[str], most: int) -> Sought:
    """In no order."""
    found: QuerySet[Any, Any] = rows.order_by().values("pk", *columns)[:most]
    return found.query.sql_with_params()


def all_by_key(rows: QuerySet[Any], columns: Sequence[str], most: int) -> Sought:
    """In no order; the columns of the sort are read of those that match. For a sort by what the
    index of the filters does not have."""
    keys = rows.order_by().values("pk")[:most]
    found: QuerySet[Any, Any] = rows.model._default_manager.filter(pk__in=keys).order_by()
    return found.values("pk", *columns).query.sql_with_params()


def sorted_apart(
    rows: QuerySet[Any], columns: Sequence[str], edge: Edge, descending: bool, most: int
) -> Sought:
    """All that match are found and sorted, in an index that has it all if there is one. No index of
    the sort is walked to look for them: they may all stand at its other end."""
    first, *rest = columns
    return _keys([_Plain(first), *map(F, rest)], rows, columns, edge, descending, most)


def walked(
    rows: QuerySet[Any], columns: Sequence[str], edge: Edge, descending: bool, most: int
) -> Sought:
    """Along the index of the sort, which has what rows are filtered by. Where the rows themselves
    are asked for, each is read before it is passed over."""
    return _keys([F(name) for name in columns], rows, columns, edge, descending, most)


def _keys(
    by: Sequence[Any],
    rows: QuerySet[Any],
    columns: Sequence[str],
    edge: Edge,
    descending: bool,
    most: int,
) -> Sought:
    found = beyond(rows, by, edge, descending).values("pk", *columns)[:most]
    return found.query.sql_with_params()


def beyond(rows: QuerySet[Row], keys: Sequence[Any], edge: Edge, descending: bool) -> QuerySet[Row]:
    """Rows sorted by these keys, from the edge on."""
    if edge is not None:
        lookup = TupleLessThan if descending else TupleGreaterThan
        rows = rows.filter(lookup(keys, edge))
    return rows.order_by(*(OrderBy(key, descending=descending) for key in keys))


def rows_of(
    whole: QuerySet[Row], sought: Sought, by: Sequence[str], descending: bool, most: int
) -> list[Row]:
    """The first of the `whole` whose keys are sought: one statement around the one that finds them.
    Django takes as long to compose it as PostgreSQL to answer it, so it does only where `whole` is
    no plain table.
    """
    statement, values = sought
    keys = f"SELECT key FROM ({statement}) AS sought ({_names(by)})"  # noqa: S608 - ours
    if not _is_plain(whole):
        rows = whole.filter(pk__in=RawSQL(keys, values))  # noqa: S611 - ours
        return list(beyond(rows, [F(name) for name in by], None, descending)[:most])
    return _read(whole, keys, values, by, descending, most)


def rows_and_number_of(
    whole: QuerySet[Row], sought: Sought, by: Sequence[str], edge: Edge, descending: bool, most: int
) -> tuple[list[Row], int]:
    """The first rows, beyond an edge, of a plain table whose keys are sought; and how many keys
    these are: zero where there is no such row."""
    assert _is_plain(whole)
    statement, values = sought
    begin = f"WITH sought ({_names(by)}) AS MATERIALIZED ({statement}) "
    sort = _sort(by)
    keys = (
        f"SELECT key FROM sought{past(sort, edge, descending)}"  # noqa: S608 - ours
        f" ORDER BY {in_order(sort, descending)} LIMIT {most}"
    )
    number = ", (SELECT count(*) FROM sought) AS among"
    found = _read(whole, keys, (*values, *(edge or ())), by, descending, most, begin, number)
    return found, found[0].among if found else 0  # type: ignore[attr-defined]


def _is_plain(whole: QuerySet[Any]) -> bool:
    query = whole.query
    return not (query.where or query.select_related or query.annotations)


def _read(
    whole: QuerySet[Row],
    keys: str,
    values: Sequence[Any],
    by: Sequence[str],
    descending: bool,
    most: int,
    begin: str = "",
    number: str = "",
) -> list[Row]:
    model: type[Model] = whole.model
    told, deferred = whole.query.deferred_loading
    names, but = ((), tuple(sorted(told))) if deferred else (tuple(sorted(told)), ())
    order = in_order([_column(model, name) for name in by], descending)
    statement = (
        f"{begin}SELECT {prepared_queries.columns(model, names, but)}{number}"  # noqa: S608 - ours
        f" FROM {model._meta.db_table} WHERE {_column(model, 'pk')} IN ({keys})"
        f" ORDER BY {order} LIMIT {most}"
    )
    return prepared_queries.read(whole.model, statement, values, names, but, planned=False)


def past(columns: Sequence[str], edge: Edge, descending: bool) -> str:
    """The condition of rows beyond an edge, in SQL that takes its values; empty without one."""
    if edge is None:
        return ""
    marks = ", ".join(["%s"] * len(edge))
    return f" WHERE ({', '.join(columns)}) {'<' if descending else '>'} ({marks})"


def in_order(columns: Sequence[str], descending: bool) -> str:
    return ", ".join(f"{column} {'DESC' if descending else 'ASC'}" for column in columns)


def _sort(by: Sequence[str]) -> list[str]:
    """What the columns of the sort are called beside the keys that are sought."""
    return [f"sort{n}" for n in range(len(by))]


def _names(by: Sequence[str]) -> str:
    return ", ".join(["key", *_sort(by)])


def _column(model: type[Model], name: str) -> str:
    field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
    return f"{model._meta.db_table}.{field.column}"
