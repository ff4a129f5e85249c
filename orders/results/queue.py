"""What waits for eyes: the queue, how many there are, which one comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.fields.tuple_lookups import TupleGreaterThan

from backoffice.core import counters, prepared_queries
from backoffice.models import Assignment, User
from backoffice.pages.paging.pages import Sort
from orders.results.models import IN_QUEUE, KINDS, OPEN_CRITICAL, RANKS, SOMEBODY_ELSE, Review
from patients.identity import Agreement

IN_ORDER: Final = Sort(("rank", "since", "order_id"))
"""Most urgent first; of the same urgency, what has waited longest."""
MOST_GIVEN: Final = 2_000


def unsigned_count() -> int:
    """How many results wait for somebody: exact, at the cost of a handful of rows.

    Partial results that were acknowledged wait for the lab, and are not among them.
    """
    return counts()[0]


def counts() -> tuple[int, int]:
    """Results that wait for somebody, and partial ones that were acknowledged and wait for the
    rest."""
    with prepared_queries.cursor() as cursor:
        cursor.execute("SELECT counted, sum(delta) FROM orders_reviewtally GROUP BY counted")
        found = dict(cursor.fetchall())
    return int(found.get("unsigned", 0)), int(found.get("seen", 0))


def add_up(worth: int = counters.WORTH_IT) -> None:
    """Make few rows of the many; the sums stay what they are at every moment."""
    counters.fold("orders_reviewtally", ("counted",), "delta", worth)


def queue(given: Mapping[str, Any], user: User) -> QuerySet[Review]:
    """The queue, narrowed by a lab, a patient, an urgency (a word of `RANKS`), or to one's own.

    `critical` shows open criticals instead, signed ones included.
    """
    rows = Review.objects.filter(OPEN_CRITICAL if given.get("critical") else IN_QUEUE)
    if given.get("lab"):
        rows = rows.filter(lab_slug=given["lab"])
    if given.get("patient"):
        rows = rows.filter(user=given["patient"])
    if given.get("place"):
        rows = rows.filter(_in_place(given["place"]))
    if given.get("mine"):
        rows = rows.filter(Q(signer=user) | Q(pk__in=_given_to(user)))
    return rows


def _in_place(place: str) -> Q:
    """Reviews in a place. What is not interpreted, and what names somebody else, has the rank of
    what is abnormal."""
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


def _given_to(user: User) -> list[UUID]:
    """Orders whose result, or which themselves, are somebody's work."""
    mine = Assignment.objects.filter(user=user, subject_type__in=["result", "order"])
    return [UUID(key) for key in mine.values_list("subject_id", flat=True)[:MOST_GIVEN]]


def in_order(rows: QuerySet[Review]) -> QuerySet[Review]:
    return rows.order_by(*IN_ORDER.columns)


def after(rows: QuerySet[Review], review: Review) -> Review | None:
    """What comes after a review in the queue, be it still there or not; else the first one."""
    edge = (review.rank, review.since, review.pk)
    later = in_order(rows.filter(TupleGreaterThan(IN_ORDER.columns, edge))).first()
    return later or in_order(rows.exclude(pk=review.pk)).first()
