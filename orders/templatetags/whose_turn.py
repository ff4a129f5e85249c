"""Template tags: who acts next on an order (`orders.next_actor`), and outcomes of call cards."""

from __future__ import annotations

from django import template

from orders import next_actor
from orders.exceptions.cards import OUTCOME_LABELS

register = template.Library()

register.simple_tag(next_actor.whose_turn)
register.simple_tag(next_actor.overdue)


@register.filter
def outcome(value: str) -> str:
    """Return the label of a call card's outcome in lower case, such as "voicemail"."""
    return OUTCOME_LABELS.get(value, value).lower()
