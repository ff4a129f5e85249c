"""The list page of orders."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_list
from backoffice.core import vocabulary
from backoffice.core.encryption.url_tokens import encrypt_address, redirect_to_list
from backoffice.pages.lists.context import ListContext
from backoffice.pages.lists.fields import response_status
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page, page_position
from orders.models import Order
from orders.order_list.definition import ORDER_LIST
from orders.order_list.list_query import count_and_page, known_counts
from orders.today.counts import OrderCounts


@requires("orders.view")
@require_http_methods(["GET", "HEAD", "POST"])
def order_list(request: HttpRequest) -> HttpResponse:
    """Show orders, newest first. Filters, sort and position are part of the URL."""
    words = ORDER_LIST.personal_parameters(request.user)
    if request.method == "POST":
        return redirect_to_list(request, ORDER_LIST.url(), words)
    encrypt_address(request, words)
    filters = ORDER_LIST.form(request.GET, request.user)
    valid = filters.is_valid()
    screen = ListContext.of(request, ORDER_LIST, filters)
    if screen.redirect_url:
        return redirect(screen.redirect_url)
    total: Count | None = None
    page: Page[Order] = Page()
    known: OrderCounts | None = None
    if valid:
        known = known_counts(filters)
        total, page = count_and_page(filters, screen.size, page_position(request), known)
    ORDER_LIST.with_related(page.rows, request.user)
    record_list(
        request,
        "order",
        [order.pk for order in page.rows],
        [order.user_id for order in page.rows],
        searched=filters.is_searched(),
    )
    narrowed = filters.is_filtered()
    pager = screen.pager(page, total)
    context = {
        "list": screen,
        "filters": filters,
        "page": page,
        "pager": pager,
        "total": pager["total"],
        "tabs": _tabs(filters.cleaned_data.get("bucket") or "", None if narrowed else known),
        "chips": filters.active_filters(request.GET),
        "narrowed": narrowed,
        "any_orders": bool(page.rows) or narrowed or Order.objects.exists(),
        "by_name": filters.by_name,
    }
    return render(request, "orders/list.html", context, status=response_status(filters))


def _tabs(current: str, known: OrderCounts | None) -> list[dict[str, Any]]:
    """Return one tab per status group, with counts while no other filter is active."""
    counts = {} if known is None else known.by_bucket()
    tabs: list[dict[str, Any]] = [
        {
            "bucket": bucket,
            "label": label,
            "glyph": vocabulary.GLYPHS[bucket],
            "count": None if known is None else str(Count(counts.get(bucket, 0))),
            "current": bucket == current,
        }
        for bucket, label in vocabulary.BUCKETS.items()
        if bucket != vocabulary.UNKNOWN or counts.get(bucket) or bucket == current
    ]
    everything = {"bucket": "", "label": "All", "glyph": "", "current": not current, "count": None}
    return [everything, *tabs]
