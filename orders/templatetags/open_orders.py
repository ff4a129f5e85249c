"""Orders under way, for the pages of labs, which know nothing of orders."""

from __future__ import annotations

from typing import Final

from django import template

from backoffice import vocabulary
from backoffice.paging import Count, capped_count
from orders.models import Order

register = template.Library()

ENDED: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)
UNDER_WAY: Final = [bucket for bucket in vocabulary.BUCKETS if bucket not in ENDED]


@register.simple_tag
def open_orders(lab_slug: str) -> Count:
    """Our orders under way at a lab. An order does not say under which account it was placed."""
    return capped_count(Order.objects.filter(bucket__in=UNDER_WAY, lab_slug=lab_slug))
