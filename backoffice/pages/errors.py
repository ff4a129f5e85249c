"""Pages for requests that lead nowhere, make no sense, or break something.

Unlike Django's own they leave unread what was sent, and the session, in which the token of forms
stands: either may be what is broken.
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
    """With the words of our own refusals; others may tell of our insides."""
    words = str(exception) if type(exception) is BadRequest else ""
    return render(None, "400.html", {"words": words}, status=400)


def forms_only(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: who opens an address that only takes forms gets a page with a way back."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if not isinstance(response, HttpResponseNotAllowed) or not is_page_request(request):
            return response
        page = render(request, "405.html", {"back": _page_above(request.path)}, status=405)
        page.headers["Allow"] = response.headers["Allow"]
        return page

    return answer


def _page_above(path: str) -> str:
    """The nearest address above that there is: of an order, for what is done to that order."""
    above = path.rstrip("/")
    while above := above.rpartition("/")[0]:
        try:
            resolve(f"{above}/")
        except Resolver404:
            continue
        return f"{above}/"
    return "/"


def broken(request: HttpRequest) -> HttpResponse:
    """503 with `Retry-After` while the database does not answer, or where it gave up on a statement
    (`patience.py`), else 500; for the JSON API in the shape of its errors. The reference is the
    request id, under which the log has the error."""
    error = sys.exc_info()[1]
    away = isinstance(error, OperationalError | InterfaceError)
    cause = error.__cause__ if error else None
    slow = away and isinstance(cause, psycopg.errors.QueryCanceled)
    status = 503 if away else 500
    found: HttpResponse
    if request.path.startswith("/api/"):
        words = "The database does not answer." if away else "This request could not be answered."
        words = "This took too long. Ask for less at once." if slow else words
        code = "unavailable" if away else "error"
        body = {"code": code, "message": words, "request_id": request_id_of(request)}
        found = JsonResponse(body, status=status)
    else:
        told = {"away": away, "slow": slow, "reference": request_id_of(request)}
        found = HttpResponse(render_to_string("500.html", told), status=status)
    if away:
        found.headers["Retry-After"] = str(RETRY_SECONDS)
    return found
