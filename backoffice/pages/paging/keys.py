"""Keyset queries: find the keys of a page inside an index first, then read only those rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from django.db.models import Case, F, Field, Func, Lookup, Model, OrderBy, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.fields.tuple_lookups import TupleGreaterThan, TupleLessThan

from backoffice.core import prepared_queries

Row = TypeVar("Row", bound=Model)
CursorValues = tuple[object, ...] | None
"""Values of the sort columns after which (or before which) a page begins; None for the start."""
KeysetQuery = tuple[str, Sequence[object]]
"""SQL that selects keys, each followed by its sort columns; and the parameters of that SQL."""
KeysetQueryBuilder = Callable[
    [QuerySet[Model], Sequence[str], CursorValues, bool, int], KeysetQuery
]
"""Builds the query for the first keys behind a cursor. Arguments: rows, sort columns, cursor,
whether the sort is descending, limit."""

UNREACHED_LIMIT: Final = 2**31 - 1
"""A limit that no table reaches. It makes PostgreSQL find, or sort, all rows of a subquery first.
Without it PostgreSQL may take one outer row after the other and look for it in the subquery."""


def opaque_condition(condition: Q) -> Case:
    """Hide a condition from the planner, which then expects that about half of the rows match."""
    return Case(When(condition, then=Value(True)), default=Value(False))


class KeyInArray(Lookup):
    """Test whether a column is one of the keys of an array, written as PostgreSQL writes arrays."""

    lookup_name = "key_in_array"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        column, values = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", [*values, self.rhs]


class _UnindexedColumn(Func):
    """A column in a form that no index has.

    PostgreSQL must sort by it and cannot read an index in order. GREATEST of one value is that
    value, but the planner does not simplify it.
    """

    function = "GREATEST"
    arity = 1


def keys_unsorted(rows: QuerySet[Model], columns: Sequence[str], limit: int) -> KeysetQuery:
    """Select keys in no order."""
    selected = rows.order_by().values("pk", *columns)[:limit]
    return selected.query.sql_with_params()


def keys_unsorted_by_pk(rows: QuerySet[Model], columns: Sequence[str], limit: int) -> KeysetQuery:
    """Select keys in no order, then look up their sort columns by primary key.

    For a sort by columns that the index of the filters does not have.
    """
    keys = rows.order_by().values("pk")[:limit]
    selected = rows.model._default_manager.filter(pk__in=keys).order_by()
    return selected.values("pk", *columns).query.sql_with_params()


def keys_by_full_sort(
    rows: QuerySet[Model],
    columns: Sequence[str],
    cursor: CursorValues,
    descending: bool,
    limit: int,
) -> KeysetQuery:
    """Find all rows that match and sort them, inside an index that covers them if there is one.

    PostgreSQL does not scan the index of the sort for them: they may all be at its other end.
    """
    first, *rest = columns
    sort: list[F | Func] = [_UnindexedColumn(first), *map(F, rest)]
    return _sorted_keys(sort, rows, columns, cursor, descending, limit)


def keys_by_index_scan(
    rows: QuerySet[Model],
    columns: Sequence[str],
    cursor: CursorValues,
    descending: bool,
    limit: int,
) -> KeysetQuery:
    """Scan the index of the sort, which also has the filtered columns.

    A query for whole rows would read each row from the table before it skips the row.
    """
    return _sorted_keys([F(name) for name in columns], rows, columns, cursor, descending, limit)


def _sorted_keys(
    sort: Sequence[F | Func],
    rows: QuerySet[Model],
    columns: Sequence[str],
    cursor: CursorValues,
    descending: bool,
    limit: int,
) -> KeysetQuery:
    selected = rows_from_cursor(rows, sort, cursor, descending).values("pk", *columns)[:limit]
    return selected.query.sql_with_params()


def rows_from_cursor(
    rows: QuerySet[Row], sort: Sequence[F | Func], cursor: CursorValues, descending: bool
) -> QuerySet[Row]:
    """Sort rows by these expressions, and keep those behind the cursor."""
    if cursor is not None:
        lookup = TupleLessThan if descending else TupleGreaterThan
        rows = rows.filter(lookup(sort, cursor))
    return rows.order_by(*(OrderBy(column, descending=descending) for column in sort))


def fetch_rows(
    all_rows: QuerySet[Row],
    query: KeysetQuery,
    columns: Sequence[str],
    descending: bool,
    limit: int,
) -> list[Row]:
    """Read the first of `all_rows` that a keyset query finds, in one statement.

    Django takes as long to compile that statement as PostgreSQL to answer it. So Django compiles it
    only where `all_rows` is not a plain table.
    """
    statement, values = query
    keys = f"SELECT key FROM ({statement}) AS found ({_column_aliases(columns)})"  # noqa: S608 - ours
    if not _is_plain_table(all_rows):
        rows = all_rows.filter(pk__in=RawSQL(keys, values))  # noqa: S611 - ours
        return list(rows_from_cursor(rows, [F(name) for name in columns], None, descending)[:limit])
    return _read_plain_table(all_rows, keys, values, columns, descending, limit)


def fetch_rows_and_count(
    all_rows: QuerySet[Row],
    query: KeysetQuery,
    columns: Sequence[str],
    cursor: CursorValues,
    descending: bool,
    limit: int,
) -> tuple[list[Row], int]:
    """Read the first rows behind a cursor, and count all keys that the query finds.

    `all_rows` must be a plain table. The count is zero where no row is behind the cursor.
    """
    assert _is_plain_table(all_rows)
    statement, values = query
    with_clause = f"WITH found ({_column_aliases(columns)}) AS MATERIALIZED ({statement}) "
    sort = _sort_aliases(columns)
    keys = (
        f"SELECT key FROM found{cursor_condition_sql(sort, cursor, descending)}"  # noqa: S608 - ours
        f" ORDER BY {order_by_sql(sort, descending)} LIMIT {limit}"
    )
    count_column = ", (SELECT count(*) FROM found) AS key_count"
    rows = _read_plain_table(
        all_rows,
        keys,
        (*values, *(cursor or ())),
        columns,
        descending,
        limit,
        with_clause,
        count_column,
    )
    return rows, rows[0].key_count if rows else 0  # type: ignore[attr-defined]


def _is_plain_table(rows: QuerySet[Model]) -> bool:
    query = rows.query
    return not (query.where or query.select_related or query.annotations)


def _read_plain_table(
    all_rows: QuerySet[Row],
    keys: str,
    values: Sequence[object],
    columns: Sequence[str],
    descending: bool,
    limit: int,
    with_clause: str = "",
    extra_column: str = "",
) -> list[Row]:
    model: type[Model] = all_rows.model
    fields, are_deferred = all_rows.query.deferred_loading
    names, but = ((), tuple(sorted(fields))) if are_deferred else (tuple(sorted(fields)), ())
    order = order_by_sql([_qualified_column(model, name) for name in columns], descending)
    statement = (
        f"{with_clause}SELECT {prepared_queries.columns(model, names, but)}"  # noqa: S608 - ours
        f"{extra_column} FROM {model._meta.db_table}"
        f" WHERE {_qualified_column(model, 'pk')} IN ({keys}) ORDER BY {order} LIMIT {limit}"
    )
    return prepared_queries.read(all_rows.model, statement, values, names, but, planned=False)


def cursor_condition_sql(columns: Sequence[str], cursor: CursorValues, descending: bool) -> str:
    """Return the WHERE clause for rows behind a cursor, with a placeholder for each of its values.

    The clause is empty without a cursor.
    """
    if cursor is None:
        return ""
    placeholders = ", ".join(["%s"] * len(cursor))
    return f" WHERE ({', '.join(columns)}) {'<' if descending else '>'} ({placeholders})"


def order_by_sql(columns: Sequence[str], descending: bool) -> str:
    """Return what follows ORDER BY."""
    return ", ".join(f"{column} {'DESC' if descending else 'ASC'}" for column in columns)


def _sort_aliases(columns: Sequence[str]) -> list[str]:
    """Name the sort columns of a keyset query."""
    return [f"sort{n}" for n in range(len(columns))]


def _column_aliases(columns: Sequence[str]) -> str:
    """Name all columns of a keyset query: the key first."""
    return ", ".join(["key", *_sort_aliases(columns)])


def _qualified_column(model: type[Model], name: str) -> str:
    return f"{model._meta.db_table}.{column_field(model, name).column}"


def column_field(model: type[Model], name: str) -> Field[Any, Any]:
    """Return the field of a column; `pk` is the primary key."""
    field = model._meta.pk if name == "pk" else model._meta.get_field(name)
    assert isinstance(field, Field)
    return field
