"""The page of a list."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import staff_user
from backoffice.audit.recording import record_list
from backoffice.core.encryption.url_tokens import encrypt_address, redirect_to_list
from backoffice.pages.lists.context import ListContext
from backoffice.pages.lists.definition import ListPage
from backoffice.pages.lists.fields import response_status
from backoffice.pages.paging.counts import Count
from backoffice.pages.paging.pages import Page, page_position


@require_http_methods(["GET", "HEAD", "POST"])
def show(request: HttpRequest, *, list_page: ListPage) -> HttpResponse:
    """Show a page of the list. Filters, sort and position are in the URL.

    Filters with personal text are posted, and encrypted in the URL.
    """
    user = staff_user(request)
    words = list_page.personal_parameters(user)
    if request.method == "POST":
        return redirect_to_list(request, list_page.url(), words)
    encrypt_address(request, words)
    request.GET = list_page.with_open_tab(request.GET, user)  # type: ignore[assignment]
    filters = list_page.filters(request.GET, user)
    form = filters.form
    is_valid = form.is_valid()
    screen = ListContext.of(request, list_page, form)
    if screen.redirect_url:
        return redirect(screen.redirect_url)
    count: Count | None = None
    page: Page[Any] = Page()
    if is_valid:
        count, page = list_page.count_and_page(filters, screen.size, page_position(request))
        screen.notices += list_page.notices(filters)
    record_list(
        request,
        list_page.subject,
        [row.pk for row in page.rows],
        list_page.shown_patients(page.rows, filters),
        searched=is_valid and form.is_searched(),
    )
    rows = list_page.with_related(page.rows, user)
    if len(rows) != len(page.rows):  # A checkbox would mark another row.
        raise ValueError(f"{list_page.name}: with_related returns other rows than it got")
    pager = screen.pager(page, count)
    context = {
        "list": screen,
        "filters": form,
        "page": page,
        "rows": rows,
        "pager": pager,
        "total": pager["total"],
        "active_filters": form.active_filters(request.GET),
        "is_filtered": is_valid and form.is_filtered(),
        **list_page.page_context(filters),
    }
    return render(request, list_page.template, context, status=response_status(form))
