"""Filtered rows of unknown number: counted up to a cap, and found all at once if that is quick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import F, Model, QuerySet

from backoffice.pages.paging.counts import COUNT_CAP, Count
from backoffice.pages.paging.keys import KeyInArray, Row
from backoffice.pages.paging.pages import Sort


class PlannerEstimate(NamedTuple):
    """The number of rows that the planner expects, and the cost of finding them, in its units."""

    rows: int
    cost: float


QUICK_PLAN: Final = PlannerEstimate(rows=5_000, cost=2_000.0)
"""Up to this estimate, rows are found and sorted in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class MatchingRows(Generic[Row]):
    """Matching rows and their count. `all_rows` is for `fetch_page`, if all are quickly found."""

    rows: QuerySet[Row]
    count: Count
    all_rows: QuerySet[Row] | None


def match_rows(
    rows: QuerySet[Row],
    all_rows: QuerySet[Row],
    sort: Sort,
    cap: int = COUNT_CAP,
    quick_plan: PlannerEstimate | None = QUICK_PLAN,
) -> MatchingRows[Row]:
    """Count the matching rows up to the cap; decide how `fetch_page` should find them.

    Up to the cap, the returned rows are selected by the keys that the count found, however long the
    filters took. The keys stay text as PostgreSQL wrote it, because hundreds of them need not
    become Python values. Beyond the cap, the planner is asked whether it can find and sort all rows
    within `quick_plan`; None skips that question.
    """
    count, keys = read_keys(rows.order_by().values("pk"), cap)
    if not count:
        return MatchingRows(all_rows.none(), Count(0), None)
    if count <= cap:
        return MatchingRows(all_rows.filter(KeyInArray(F("pk"), keys)), Count(count), all_rows)
    is_quick = False
    if quick_plan and rows.query.where:
        estimate = planner_estimate(rows, sort.columns)
        # An estimate below the count is wrong, and so is its cost.
        is_quick = cap < estimate.rows <= quick_plan.rows and estimate.cost <= quick_plan.cost
    return MatchingRows(rows, Count(cap, capped=True), all_rows if is_quick else None)


def read_keys(keys: QuerySet[Model, object], limit: int) -> tuple[int, str]:
    """Return how many rows a query of one column has, and its values as `KeyInArray` takes them.

    Beyond `limit` rows the number is `limit + 1` and there are no values.
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


def planner_estimate(rows: QuerySet[Model], columns: Sequence[str] = ()) -> PlannerEstimate:
    """Ask the planner for its estimate, without reading a row.

    The query reads the key and `columns`.
    """
    try:
        query, values = rows.order_by().values("pk", *columns).query.sql_with_params()
    except EmptyResultSet:
        return PlannerEstimate(0, 0.0)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT json) {query}", values)
        plan = cursor.fetchone()[0][0]["Plan"]
    return PlannerEstimate(plan["Plan Rows"], plan["Total Cost"])
