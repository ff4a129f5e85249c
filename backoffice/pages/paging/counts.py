"""Counts that stop at a cap: an exact count of a long list takes time, and nobody reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Model, QuerySet

COUNT_CAP: Final = 500


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows, counted up to a cap. Prints as `500+` beyond the cap."""

    value: int
    capped: bool = False

    @classmethod
    def with_cap(cls, number: int, cap: int) -> Self:
        """Return the count for a query that stopped at `cap + 1` rows."""
        return cls(min(number, cap), capped=number > cap)

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.capped else ''}"


def capped_count(rows: QuerySet[Model], cap: int = COUNT_CAP) -> Count:
    """Count at most `cap` rows in one query."""
    number = rows.order_by().values("pk")[: cap + 1].count()
    return Count.with_cap(number, cap)


def capped_counts(*sets: QuerySet[Model], cap: int = COUNT_CAP) -> list[Count]:
    """Count several querysets as `capped_count` does, all in one query."""
    return run_capped_counts(*capped_count_sql([rows.order_by() for rows in sets], cap), cap)


def capped_count_sql(sets: Iterable[QuerySet[Model]], cap: int) -> tuple[list[str], list[Any]]:
    """Return the SQL expressions and the parameters for `run_capped_counts`.

    A caller may keep the result, because it takes longer to compile than to answer. Each queryset
    keeps its order, so that the index of that order ends the count early.
    """
    expressions: list[str] = []
    parameters: list[Any] = []
    for rows in sets:
        try:
            query, values = rows.values("pk")[: cap + 1].query.sql_with_params()
        except EmptyResultSet:
            expressions.append("0")
            continue
        expressions.append(f"(SELECT count(*) FROM ({query}) AS capped)")
        parameters += values
    return expressions, parameters


def run_capped_counts(
    expressions: Sequence[str], parameters: Sequence[Any], cap: int
) -> list[Count]:
    """Run the expressions of `capped_count_sql` as one query."""
    if not expressions:
        return []
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(expressions)}", parameters)
        numbers = cursor.fetchone()
    return [Count.with_cap(number, cap) for number in numbers]
