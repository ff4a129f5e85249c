"""Keys that a query finds, read first and then used as a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import F, Lookup, Model, Q, QuerySet


class KeyInArray(Lookup):
    """Test whether a column is one of the keys of an array, written as PostgreSQL writes arrays.

    PostgreSQL sees the keys, so it can estimate how many rows have them.
    """

    lookup_name = "key_in_array"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        column, values = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} = ANY(%s::{kind}[])", [*values, self.rhs]


class FewKeys(KeyInArray):
    """The same test for the few rows of a list: PostgreSQL reads them all and then sorts them.

    With the other form it may look for them along the index of the sort, if the page is short.
    """

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        column, values = self.process_lhs(compiler, connection)
        kind = self.lhs.output_field.db_type(connection)
        return f"{column} IN (SELECT unnest(%s::{kind}[]))", [*values, self.rhs]


def key_condition(column: str, keys: QuerySet[Model, object], limit: int, otherwise: Q) -> Q:
    """Return the condition that `column` is one of the keys that a query finds. Runs the query.

    If it finds more than `limit` keys, the condition is `otherwise`, which must match the same rows
    without the keys.
    """
    number, array = read_keys(keys, limit)
    return Q(KeyInArray(F(column), array)) if number <= limit else otherwise


def keys_of_any(
    rows: QuerySet[Any], conditions: Sequence[Q], limit: int | None = None
) -> QuerySet[Any, Any]:
    """Return the keys of the rows that fulfill one of the conditions, at most `limit` for each.

    Each condition is a query of its own, so that its own index answers it. A key may be repeated.
    """
    found = [rows.order_by().filter(condition).values("pk")[:limit] for condition in conditions]
    return found[0].union(*found[1:], all=True) if found else rows.none().values("pk")


def read_keys(keys: QuerySet[Model, object], limit: int) -> tuple[int, str]:
    """Return how many rows a query of one column has, and its values as `KeyInArray` takes them.

    Beyond `limit` rows the number is `limit + 1` and there are no values. The keys stay text as
    PostgreSQL wrote it, because hundreds of them need not become Python values.
    """
    try:
        query, values = keys[: limit + 1].query.sql_with_params()
    except EmptyResultSet:
        return 0, "{}"
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*), CASE WHEN count(*) <= %s THEN array_agg(key)::text END"
            f" FROM ({query}) AS found (key)",
            [limit, *values],
        )
        count, array = cursor.fetchone()
    return count, array or "{}"
