"""Middleware for URLs that accept only POST: a page with a link back for those who open one."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import render
from django.urls import Resolver404, resolve

from backoffice.core.request_ids import is_page_request


def explain_post_only(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Show a page with a link back when somebody opens a URL that accepts only POST."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if not isinstance(response, HttpResponseNotAllowed) or not is_page_request(request):
            return response
        page = render(request, "405.html", {"back": _page_above(request.path)}, status=405)
        page.headers["Allow"] = response.headers["Allow"]
        return page

    return answer


def _page_above(path: str) -> str:
    """Return the nearest existing parent URL: for an action on an order, the order's page."""
    above = path.rstrip("/")
    while above := above.rpartition("/")[0]:
        try:
            resolve(f"{above}/")
        except Resolver404:
            continue
        return f"{above}/"
    return "/"
