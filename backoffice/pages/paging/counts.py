"""How many rows match, counted no further than a cap: what nobody reads takes no time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

COUNT_CAP: Final = 500


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows match, counted no further than a cap: prints `500+` beyond it."""

    value: int
    capped: bool = False

    @classmethod
    def of(cls, found: int, cap: int) -> Self:
        return cls(min(found, cap), capped=found > cap)

    def __str__(self) -> str:
        return f"{self.value:,}{'+' if self.capped else ''}"


def capped_count(rows: QuerySet[Any], cap: int = COUNT_CAP) -> Count:
    """Count at most `cap` rows; one query that stops there."""
    found = rows.order_by().values("pk")[: cap + 1].count()
    return Count.of(found, cap)


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
    return [Count.of(count, cap) for count in found]
