"""Request ids: made here and nowhere else, on the answer, the log lines and the audit entry."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final
from uuid import uuid4

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

HEADER: Final = "X-Request-ID"

current: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request this thread is answering, empty outside of one."""


def identified(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: a new id for every request. One sent from outside is not looked at: ids in the
    audit trail must be ours."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        known = uuid4().hex
        request.request_id = known  # type: ignore[attr-defined]
        request.began = timezone.now()  # type: ignore[attr-defined]
        token = current.set(known)
        try:
            response = get_response(request)
        finally:
            current.reset(token)
        response.headers[HEADER] = known
        return response

    return answer


def id_of(request: object) -> str:
    """Id of a request, empty for one that did not pass the middleware."""
    return str(getattr(request, "request_id", ""))
