"""Error pages: not found, bad request, method not allowed, server error.

Unlike Django's own error views, they read neither the request body nor the session, which has the
CSRF token. Either may be the cause of the error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import psycopg
from django.core.exceptions import BadRequest
from django.db import InterfaceError, OperationalError
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    JsonResponse,
)
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import Resolver404, resolve

from backoffice.core.request_ids import is_page_request, request_id_of

RETRY_SECONDS: Final = 30


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show the message of a `BadRequest`. Messages of its subclasses may reveal internals."""
    words = str(exception) if type(exception) is BadRequest else ""
    return render(None, "400.html", {"words": words}, status=400)


def forms_only(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: show a page with a link back when somebody opens a URL that accepts only POST."""

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


def broken(request: HttpRequest) -> HttpResponse:
    """Answer with status 500, or with 503 and `Retry-After` for errors of the database.

    Those are a database that does not answer, and a statement that it canceled
    (`statement_limits.py`). For the JSON API the response has the shape of its errors. The
    reference on the page is the request id, which the log has with the error.
    """
    error = sys.exc_info()[1]
    away = isinstance(error, OperationalError | InterfaceError)
    cause = error.__cause__ if error else None
    slow = away and isinstance(cause, psycopg.errors.QueryCanceled)
    status = 503 if away else 500
    response: HttpResponse
    if request.path.startswith("/api/"):
        words = "The database does not answer." if away else "This request could not be answered."
        words = "This took too long. Ask for less at once." if slow else words
        code = "unavailable" if away else "error"
        body = {"code": code, "message": words, "request_id": request_id_of(request)}
        response = JsonResponse(body, status=status)
    else:
        context = {"away": away, "slow": slow, "reference": request_id_of(request)}
        response = HttpResponse(render_to_string("500.html", context), status=status)
    if away:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response
