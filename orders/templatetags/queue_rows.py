"""Rows of the review queue: see `orders.reviewing.drawing`."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString

from orders.models import Review
from orders.reviewing.drawing import draw
from orders.reviewing.pages import Item

register = template.Library()


@register.simple_tag
def queue_rows(items: list[Item], opened: Review | None, query: str, by_name: bool) -> SafeString:
    return SafeString(draw(items, opened, query, by_name))
