"""Template tag for the rows of the review queue (`orders.results.rendering`)."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from orders.models import Review
from orders.results.page_context import QueueItem
from orders.results.rendering import render_queue_rows

register = template.Library()


@register.simple_tag
def queue_rows(
    items: list[QueueItem], opened: Review | None, query: str, by_name: bool
) -> SafeString:
    return SafeString(render_queue_rows(items, opened, query, by_name))
