"""The rows of the list of orders."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

from backoffice.lists.screen import Screen
from orders.listing.drawing import draw

register = template.Library()


@register.simple_tag
def order_rows(rows: list[Any], screen: Screen, by_name: bool, sees_results: bool) -> SafeString:
    """`{% order_rows page.rows list by_name sees_results %}`."""
    return draw(rows, screen, by_name=by_name, sees_results=sees_results)
