"""Critical results until the call-back: acknowledgements, calls, and counts of open ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.auth.models import AnonymousUser
from django.db.models import QuerySet

from backoffice.accounts.models import User
from backoffice.pages.nav_badges import badge_number, declare
from orders.models.review import (
    OPEN_CRITICAL,
    CriticalAcknowledgement,
    CriticalCall,
    ResultVersion,
    Review,
)
from orders.results.sign_off import ResultChanged, lock_review


def open_criticals() -> QuerySet[Review]:
    """Return critical results without acknowledgement or call, oldest first.

    The list is short, whatever the number of orders. Each row has the id of its order as `pk`, and
    `user_id`, `since`, `is_acknowledged`, `is_called` and `next_call_at`.
    """
    return Review.objects.filter(OPEN_CRITICAL).order_by("since")


MAX_COUNTED: Final = 50
"""Highest count. Above it every page says `50+`."""


@dataclass(frozen=True, slots=True)
class ResultBadges:
    """The counts of results that every page shows."""

    criticals: int
    """Open critical results, at most `MAX_COUNTED`."""
    unacknowledged: int
    """Open critical results that nobody has acknowledged."""
    oldest: datetime | None
    unsigned: int
    """Results that wait for review; 0 for users who may not see results."""


declare(
    "orders.view",
    # `since` is the receipt of the newest version. The first critical version may be much older.
    "SELECT count(*) AS criticals, min(coalesce(first.received_at, since)) AS oldest_critical,"
    " count(*) FILTER (WHERE acknowledged < open.critical_since) AS unacknowledged"
    " FROM (SELECT order_id, since, acknowledged, critical_since FROM orders_review"
    " WHERE critical_since IS NOT NULL AND (acknowledged < critical_since"
    f" OR called < critical_since) ORDER BY since LIMIT {MAX_COUNTED}) AS open"
    " LEFT JOIN orders_resultversion AS first ON first.order_id = open.order_id"
    " AND first.number = open.critical_since",
)
declare(
    "results.view",
    "SELECT coalesce(sum(delta), 0)::int AS unsigned"
    " FROM orders_reviewtally WHERE counted = 'unsigned'",
)


def result_badges(user: User | AnonymousUser) -> ResultBadges:
    return ResultBadges(
        badge_number(user, "criticals") or 0,
        badge_number(user, "unacknowledged") or 0,
        badge_number(user, "oldest_critical"),
        badge_number(user, "unsigned") or 0,
    )


def acknowledge(review: Review, version: int, by: User) -> None:
    """Record that `by` saw the critical values of this version. Needs a transaction.

    Raises `ResultChanged` if another version has arrived or the result is no longer critical.
    """
    current = lock_review(review.pk)
    if current.version != version or not current.is_critical:
        raise ResultChanged
    if current.is_acknowledged:
        return
    CriticalAcknowledgement(
        order_id=review.pk, version=version, by=by, values=_critical_values(review, version)
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
    """Record a call about the critical values of this version. Needs a transaction.

    A call that was made is recorded even if a later version has arrived. Raises `ResultChanged`
    for a version that does not exist yet.
    """
    if version > lock_review(review.pk).version:
        raise ResultChanged
    CriticalCall(
        order_id=review.pk,
        version=version,
        by=by,
        values=_critical_values(review, version),
        recipient=recipient,
        outcome=outcome,
        note=note,
        next_attempt_at=next_attempt_at,
        made_by_service_network=made_by_service_network,
        source=source,
    ).save(force_insert=True)


def _critical_values(review: Review, version: int) -> object:
    versions = ResultVersion.objects.filter(order_id=review.pk, number=version)
    return versions.values_list("critical", flat=True).first() or []
