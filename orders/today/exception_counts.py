"""Exceptions on the sheet of a shift: how many wait in each group, how many of them I took, and
those that wait longest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Value

from backoffice.core.prepared_queries import by_key
from backoffice.models import User
from backoffice.pages.paging.counts import Count
from backoffice.team.models import Assignment
from orders.exceptions import queue
from orders.models import Order
from orders.models.order_queryset import LIST_COLUMNS

SHOWN: Final = 3
"""Orders a sheet names of each group; its queue has the rest."""
TAKEN: Final = 500
"""Orders of one member of staff that are looked at."""
ELSEWHERE: Final = (queue.CRITICAL, queue.PUT_OFF)
"""Groups that a sheet has lines of their own for, or that wait for nobody."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One group. `mine` is None where everybody's is asked for."""

    group: queue.Group
    count: Count
    mine: int | None
    oldest: list[Order]


def waiting(user: User, now: datetime, *, all_staff: bool) -> list[Waiting]:
    """Groups in which something waits, with the oldest of it, or of what this person took: four
    queries at most."""
    counts = queue.counts(now, user)
    keys = [key for key in queue.GROUPS if key not in ELSEWHERE and counts[key].value]
    taken = None if all_staff or not keys else _taken(user)
    found = _oldest(keys, now, taken)
    shown = {key: ids[:SHOWN] for key, ids in found.items()}
    orders = by_key(Order, {pk for ids in shown.values() for pk in ids}, LIST_COLUMNS)
    return [
        Waiting(
            queue.GROUPS[key],
            counts[key],
            None if all_staff else len(found[key]),
            [orders[pk] for pk in shown[key] if pk in orders],
        )
        for key in keys
    ]


def _taken(user: User) -> list[str]:
    rows = Assignment.objects.filter(user=user, subject_type="order").order_by("at")
    return list(rows.values_list("subject_id", flat=True)[:TAKEN])


def _oldest(
    keys: Collection[str], now: datetime, only: Collection[str] | None
) -> dict[str, list[UUID]]:
    """Ids of what waits longest in each group; of what is among `only`, all."""
    found: dict[str, list[UUID]] = {key: [] for key in keys}
    if not keys or (only is not None and not only):
        return found
    parts: list[Any] = []
    for key in keys:
        rows, sort = queue.orders_of(key, now), queue.GROUPS[key].sort
        rows = rows if only is None else rows.filter(pk__in=only)
        named = rows.annotate(waits_in=Value(key), since=F(sort.columns[0]))
        longest = named.order_by(*sort.columns).values_list("waits_in", "since", "pk")
        parts.append(longest[: TAKEN if only is not None else SHOWN])
    lines = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    for key, _, pk in sorted(lines, key=lambda line: (line[1] is None, line[1], line[2])):
        found[key].append(pk)
    return found
