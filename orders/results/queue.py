"""The review queue: conditions of its filters, its sort, its counts, and the next result.

`orders/sql/reviews.sql` computes the rank by which it is sorted.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThan

from backoffice.accounts.models import User
from backoffice.core import counters, prepared_queries
from backoffice.pages.paging.pages import Sort
from backoffice.team.models import Assignment
from orders.models.review import IN_QUEUE, KINDS, OPEN_CRITICAL, RANKS, SOMEBODY_ELSE, Review
from patients.identity_comparison import Agreement

QUEUE_SORT: Final = Sort(("rank", "since", "order_id"))
"""Most urgent first; of the same urgency, the longest waiting first."""
STATES: Final = {
    "unsigned": IN_QUEUE & ~Q(seen=F("version")),
    "seen": IN_QUEUE & Q(seen=F("version")),
    "critical": OPEN_CRITICAL,
    "signed": Q(version__lte=F("signed"), signed__gte=0),
}
"""Conditions for the states of results. `queue_counts` counts the first two."""
MAX_ASSIGNED: Final = 2_000


def unsigned_count() -> int:
    """Return the exact number of results that wait for sign-off, by reading a few rows.

    Acknowledged partial results wait for the lab and are not included.
    """
    return queue_counts()[0]


def queue_counts() -> tuple[int, int]:
    """Return (results that wait for sign-off, acknowledged partial results)."""
    with prepared_queries.cursor() as cursor:
        cursor.execute("SELECT counted, sum(delta) FROM orders_reviewtally GROUP BY counted")
        counts = dict(cursor.fetchall())
    return int(counts.get("unsigned", 0)), int(counts.get("seen", 0))


def compact_tally(worth: int = counters.MIN_REDUNDANT_ROWS) -> None:
    """Merge rows of the tally. The sums are correct at any time."""
    counters.compact("orders_reviewtally", ("counted",), "delta", worth)


def place_condition(place: str) -> Q:
    """Return the condition for a place.

    Results that are not interpreted, or that name somebody else, share the rank of abnormal ones.
    """
    names_somebody_else = Q(identity=Agreement.DIFFERENT)
    if place == SOMEBODY_ELSE:
        return names_somebody_else
    if place not in ("abnormal", "unknown"):
        return Q(rank=RANKS.index(place))
    is_abnormal = Q(interpretation="abnormal")
    if place == "unknown":
        is_normal = Q(interpretation="normal", kind__in=KINDS)
        is_abnormal |= is_normal & names_somebody_else
        return Q(rank=RANKS.index("abnormal")) & ~is_abnormal
    return Q(rank=RANKS.index("abnormal")) & is_abnormal


def assigned_order_ids(user: User) -> list[UUID]:
    """Return the ids of orders assigned to a user, either the order or its result."""
    assigned = Assignment.objects.filter(user=user, subject_type__in=["result", "order"])
    return [UUID(key) for key in assigned.values_list("subject_id", flat=True)[:MAX_ASSIGNED]]


def sort_queue(rows: QuerySet[Review]) -> QuerySet[Review]:
    return rows.order_by(*QUEUE_SORT.columns)


def next_in_queue(rows: QuerySet[Review], review: Review) -> Review | None:
    """Return the next review, or the first one at the end of the queue.

    This review may have left the queue already.
    """
    edge = (review.rank, review.since, review.pk)
    later = sort_queue(rows.filter(TupleGreaterThan(QUEUE_SORT.columns, edge))).first()
    return later or sort_queue(rows.exclude(pk=review.pk)).first()
