"""Critical results until somebody was told: acknowledged by a person, called about, recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from backoffice.models import User
from backoffice.pages.nav_badges import declare, found
from orders.results.models import (
    OPEN_CRITICAL,
    CriticalAcknowledgement,
    CriticalCall,
    ResultVersion,
    Review,
)
from orders.results.sign_off import Changed, held


def open_criticals() -> QuerySet[Review]:
    """Critical results that nobody acknowledged, or about which nobody was reached; oldest first.

    A short list however many orders there are. Each row has its order's id as `pk`, `user_id`,
    `since`, `is_acknowledged`, `is_told` and `next_call_at`.
    """
    return Review.objects.filter(OPEN_CRITICAL).order_by("since")


MOST: Final = 50
"""Beyond it every page says `50+`: nobody counts on."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What every page tells of results."""

    criticals: int
    """Open ones, no more than `MOST`."""
    unacknowledged: int
    """Those of them that nobody acknowledged."""
    oldest: datetime | None
    unsigned: int
    """How many results wait for review; 0 for those who may not see them."""


declare(
    "orders.view",
    # `since` is the receipt of the newest version: it may have come long after the critical word.
    "SELECT count(*) AS criticals, min(coalesce(first.received_at, since)) AS oldest_critical,"
    " count(*) FILTER (WHERE acknowledged < open.critical_since) AS unacknowledged"
    " FROM (SELECT order_id, since, acknowledged, critical_since FROM orders_review"
    " WHERE critical_since IS NOT NULL AND (acknowledged < critical_since"
    f" OR called < critical_since) ORDER BY since LIMIT {MOST}) AS open"
    " LEFT JOIN orders_resultversion AS first ON first.order_id = open.order_id"
    " AND first.number = open.critical_since",
)
declare(
    "results.view",
    "SELECT coalesce(sum(delta), 0)::int AS unsigned"
    " FROM orders_reviewtally WHERE counted = 'unsigned'",
)


def at_a_glance(user: Any) -> Glance:
    return Glance(
        found(user, "criticals") or 0,
        found(user, "unacknowledged") or 0,
        found(user, "oldest_critical"),
        found(user, "unsigned") or 0,
    )


def acknowledge(review: Review, version: int, by: User) -> None:
    """`by` saw the critical values of this version. Inside a transaction.

    Raises `Changed` when another version has come, or it is critical no more.
    """
    standing = held(review.pk)
    if standing.version != version or not standing.is_critical:
        raise Changed
    if standing.is_acknowledged:
        return
    CriticalAcknowledgement(
        order_id=review.pk, version=version, by=by, values=_values(review, version)
    ).save(force_insert=True)


def record_call(
    review: Review,
    version: int,
    by: User,
    *,
    recipient: str,
    outcome: str,
    note: str = "",
    next_attempt_at: datetime | None = None,
    made_by_service_network: bool = False,
    source: str = "",
) -> None:
    """Keep a call about the critical values of this version. Inside a transaction.

    A call that was made is kept whatever has come since: it happened. Raises `Changed` for a
    version that is still to come, which nobody can have been told of.
    """
    if version > held(review.pk).version:
        raise Changed
    CriticalCall(
        order_id=review.pk,
        version=version,
        by=by,
        values=_values(review, version),
        recipient=recipient,
        outcome=outcome,
        note=note,
        next_attempt_at=next_attempt_at,
        made_by_service_network=made_by_service_network,
        source=source,
    ).save(force_insert=True)


def _values(review: Review, version: int) -> object:
    found = ResultVersion.objects.filter(order_id=review.pk, number=version)
    return found.values_list("critical", flat=True).first() or []
