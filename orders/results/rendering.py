"""Render the rows of the review queue, in Python and not in a template: there are dozens."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from django.utils.html import conditional_escape

from backoffice.core.urls import record_url
from backoffice.pages.templatetags.ui import initials, short_id, when
from orders.models import Review
from orders.results.badges import completeness_ring, identity_badge, place_badge
from orders.results.page_context import QueueItem

FLAGS = {0: ' data-flag="critical"', 1: ' data-flag="abnormal"'}
"""Row attributes by rank. Results that are not interpreted have the rank of abnormal ones."""


def render_queue_rows(
    items: Iterable[QueueItem], opened: Review | None, query: str, by_name: bool
) -> str:
    """Render the rows. `query`: the filters of the queue, added to each link."""
    return "".join(_item(item, opened, escape(query), by_name) for item in items)


def _item(item: QueueItem, opened: Review | None, query: str, by_name: bool) -> str:
    review, order = item.review, item.order
    current_attribute = ' aria-current="true"' if opened and review.pk == opened.pk else ""
    if order is None:
        name = f"Order {short_id(review.pk, False)}"
    elif by_name:
        first, last = escape(order.patient_first_name), escape(order.patient_last_name)
        name = f"<bdi>{first} {last}</bdi>"
    else:
        name = conditional_escape(initials(order.patient_name))
    test = escape((order and order.lab_test_name) or "Result")
    unread = " · values are being read" if review.version == 0 else ""
    back = item.completeness
    return (
        f'<li id="waits-{review.pk}" data-row="{review.pk}"{FLAGS.get(review.rank, "")}>\n'
        f'    <a href="{record_url("reviewing:report", review.pk)}{query}"{current_attribute}>\n'
        f'      <span class="name">{name}</span>\n'
        f"      {place_badge(review)}\n"
        f"      {identity_badge(review)}\n"
        f'      <span class="what">{test}{unread}</span>\n'
        f"      {completeness_ring(back, False) if back and not back.is_whole else ''}\n"
        f'      <span class="muted small nowrap">{when(review.since)}</span>\n'
        "    </a></li>"
    )
