"""Who acts next on an order, for lists: from its columns, without a query."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.safestring import SafeString

from backoffice.core import vocabulary
from backoffice.pages.icons import glyph_svg
from backoffice.pages.templatetags.ui import DASH
from orders.models import Order
from orders.progress import format_duration


def whose_turn(order: Order, now: datetime | None = None) -> SafeString:
    """Render "Patient · 9 d" and, for an overdue order, "⚠ 3 d over".

    Pages with many rows pass `now`.
    """
    item = vocabulary.order_term(order.low_level_status, order.method, (), order.bucket)
    turn = item.turn.removeprefix("the ").capitalize()
    if not turn and item.family != vocabulary.UNKNOWN:
        return DASH
    now = now or timezone.now()
    return SafeString(
        f'<span class="whose nowrap" title="{usual_time_text(order)}">{turn or "Nobody knows"}'
        f"{time_in_step_text(order, now)}</span>{overdue_badge(order.quiet_since(now), now)}"
    )


def overdue(order: Order) -> SafeString:
    """Render "⚠ 3 d over" if the order is overdue. Orders that need action at once are included."""
    return overdue_badge(order.quiet_at, timezone.now())


def time_in_step_text(order: Order, now: datetime) -> str:
    return f" · {format_duration(now - order.last_event_at)}" if order.last_event_at else ""


def usual_time_text(order: Order) -> str:
    """Return the tooltip, such as "Usual up to 6 d", or a text for orders without a usual time."""
    if order.quiet_at is None or order.last_event_at is None:
        return "No usual time"
    if order.quiet_at <= order.last_event_at:
        return "Wants somebody at once"
    return f"Usual up to {format_duration(order.quiet_at - order.last_event_at)}"


def overdue_badge(since: datetime | None, now: datetime) -> SafeString:
    if since is None or since > now:
        return SafeString("")
    return SafeString(
        f' <span class="st bare over" data-st="needs-action">{glyph_svg("warning")}'
        f"{format_duration(now - since)} over</span>"
    )
