"""Rows of which nobody knows how many match: counted up to a cap, and found all at once where that
is quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import F, QuerySet

from backoffice.pages.paging.counts import COUNT_CAP, Count
from backoffice.pages.paging.keys import Among, Row
from backoffice.pages.paging.pages import Sort


class Expected(NamedTuple):
    """How many rows the planner expects, and what it would cost to find them all, in its units."""

    rows: int
    cost: float


SOON: Final = Expected(rows=5_000, cost=2_000.0)
"""What is found and sorted in a few milliseconds."""


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
