"""Exceptions on the hand-over sheet.

For each group: the total, the number assigned to the user, and the oldest exceptions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Value

from backoffice.accounts.models import User
from backoffice.core.prepared_queries import by_key
from backoffice.pages.paging.counts import Count
from backoffice.team.models import Assignment
from orders.exceptions import queue
from orders.models import Order
from orders.models.order_queryset import LIST_COLUMNS

MAX_ORDERS: Final = 3
"""Most orders of each group on the sheet. The exception queue lists the others."""
MAX_ASSIGNED: Final = 500
"""Most assigned orders of one user that are considered."""
EXCLUDED_GROUPS: Final = (queue.CRITICAL, queue.SNOOZED)
"""Groups that the sheet shows elsewhere, or that do not need anybody now."""


@dataclass(frozen=True, slots=True)
class ExceptionCount:
    """The count of one group. `assigned_count` is None where the sheet covers all staff."""

    group: queue.ExceptionGroup
    count: Count
    assigned_count: int | None
    oldest: list[Order]


def exception_counts(user: User, now: datetime, *, all_staff: bool) -> list[ExceptionCount]:
    """Return the groups that are not empty, with their oldest orders: four queries at most.

    Without `all_staff`, only orders assigned to `user` are listed.
    """
    counts = queue.group_counts(now, user)
    keys = [
        key for key in queue.EXCEPTION_GROUPS if key not in EXCLUDED_GROUPS and counts[key].value
    ]
    assigned = None if all_staff or not keys else _assigned_order_ids(user)
    ids_by_group = _oldest(keys, now, assigned)
    shown_ids = {key: ids[:MAX_ORDERS] for key, ids in ids_by_group.items()}
    orders = by_key(Order, {pk for ids in shown_ids.values() for pk in ids}, LIST_COLUMNS)
    return [
        ExceptionCount(
            queue.EXCEPTION_GROUPS[key],
            counts[key],
            None if all_staff else len(ids_by_group[key]),
            [orders[pk] for pk in shown_ids[key] if pk in orders],
        )
        for key in keys
    ]


def _assigned_order_ids(user: User) -> list[str]:
    rows = Assignment.objects.filter(user=user, subject_type="order").order_by("at")
    return list(rows.values_list("subject_id", flat=True)[:MAX_ASSIGNED])


def _oldest(
    keys: Collection[str], now: datetime, among: Collection[str] | None
) -> dict[str, list[UUID]]:
    """Return the ids of the oldest orders of each group; with `among`, all of these orders."""
    ids_by_group: dict[str, list[UUID]] = {key: [] for key in keys}
    if not keys or (among is not None and not among):
        return ids_by_group
    parts: list[Any] = []
    for key in keys:
        rows, sort = queue.group_orders(key, now), queue.EXCEPTION_GROUPS[key].sort
        rows = rows if among is None else rows.filter(pk__in=among)
        named = rows.annotate(waits_in=Value(key), since=F(sort.columns[0]))
        longest = named.order_by(*sort.columns).values_list("waits_in", "since", "pk")
        parts.append(longest[: MAX_ASSIGNED if among is not None else MAX_ORDERS])
    lines = parts[0].union(*parts[1:], all=True) if len(parts) > 1 else parts[0]
    for key, _, pk in sorted(lines, key=lambda line: (line[1] is None, line[1], line[2])):
        ids_by_group[key].append(pk)
    return ids_by_group
