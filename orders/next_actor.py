"""Who acts next on an order, for lists: from its columns, without a query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext

from backoffice.core import vocabulary
from orders.models import Order
from orders.progress import duration_words, format_duration


@dataclass(frozen=True, slots=True)
class NextActor:
    """Who acts next, as text: `Patient`. The durations are as long as `9 d`, or empty."""

    label: str
    time_in_step: str
    usual_time: str
    """A sentence, for the tooltip."""
    overdue: str


def next_actor(order: Order, now: datetime) -> NextActor | None:
    """Return who acts next; None if nobody does."""
    item = vocabulary.order_term(order.low_level_status, order.method, (), order.bucket)
    if not item.actor_label and item.family != vocabulary.UNKNOWN:
        return None
    return NextActor(
        item.actor_label or gettext("Unknown"),
        format_duration(now - order.last_event_at) if order.last_event_at else "",
        usual_time_text(order),
        overdue_text(order.quiet_since(now), now),
    )


def usual_time_text(order: Order) -> str:
    """Return the tooltip, such as "Usually 6 days", or a text for orders without a usual time."""
    if order.quiet_at is None or order.last_event_at is None:
        return gettext("No usual time")
    if order.quiet_at <= order.last_event_at:
        return gettext("Needs action now")
    return gettext("Usually %(time)s") % {
        "time": duration_words(order.quiet_at - order.last_event_at)
    }


def overdue_text(since: datetime | None, now: datetime) -> str:
    """Return how long an order is overdue: `3 d`. Empty if it is not."""
    return "" if since is None or since > now else format_duration(now - since)


def overdue_by(order: Order) -> str:
    """Return how long an order is overdue. Orders that need action at once are included."""
    return overdue_text(order.quiet_at, timezone.now())
