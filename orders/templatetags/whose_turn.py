"""Whose turn an order's next step is, in a list: from its own columns, without a query."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString

from backoffice.core import vocabulary
from backoffice.templatetags.shapes import glyph_svg
from orders.exceptions.cards import WORDS
from orders.models import Order
from orders.progress import span

register = template.Library()

_NOBODY: Final = SafeString('<span class="muted" aria-label="not given">—</span>')


@register.simple_tag
def whose_turn(order: Order, now: datetime | None = None) -> SafeString:
    """`Patient · 9 d`, and where it is over the usual time `⚠ 3 d over`. Whoever says many gives
    the moment."""
    item = vocabulary.order_term(order.low_level_status, order.method, (), order.bucket)
    whose = item.turn.removeprefix("the ").capitalize()
    if not whose and item.family != vocabulary.UNKNOWN:
        return _NOBODY
    now = now or timezone.now()
    return SafeString(
        f'<span class="whose nowrap" title="{usual_of(order)}">{whose or "Nobody knows"}'
        f"{rested_of(order, now)}</span>{over_of(order.quiet_since(now), now)}"
    )


@register.simple_tag
def over_usual(order: Order) -> SafeString:
    """`⚠ 3 d over`, of what wants somebody at once, too; nothing while it is not."""
    return over_of(order.quiet_at, timezone.now())


def rested_of(order: Order, now: datetime) -> str:
    return f" · {span(now - order.last_event_at)}" if order.last_event_at else ""


def usual_of(order: Order) -> str:
    """For a pointer: `Usual up to 6 d`. A moment that is not counted from the step says itself."""
    if order.quiet_at is None or order.last_event_at is None:
        return "No usual time"
    if order.quiet_at <= order.last_event_at:
        return "Wants somebody at once"
    return f"Usual up to {span(order.quiet_at - order.last_event_at)}"


def over_of(since: datetime | None, now: datetime) -> SafeString:
    if since is None or since > now:
        return SafeString("")
    return SafeString(
        f' <span class="st bare over" data-st="needs-action">{glyph_svg("warning")}'
        f"{span(now - since)} over</span>"
    )


@register.filter
def outcome(value: str) -> str:
    """How a call card ended, in words: `voicemail`."""
    return WORDS.get(value, value).lower()
