"""Request ids: made here and nowhere else, on the answer, the log lines and the audit entry. And
the address a request came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import (
    HttpRequest,
    HttpResponseBase,
    HttpResponseForbidden,
    HttpResponseNotAllowed,
)
from django.utils import timezone

HEADER: Final = "X-Request-ID"
ROUTE_HEADER: Final = "X-Route"
"""Name of the route, for the proxy's log in the place of the path; the proxy removes it."""
UNMATCHED_ROUTE: Final = "unmatched"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What browsers and clients of the API send."""
MONITORING_PATHS: Final = frozenset(
    {"/health/live", "/health/ready", "/health/status", "/health/inbox", "/metrics"}
)
"""What is asked on the inside, over plain HTTP and by any name."""

current: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request this thread is answering, or whose wish it carries out; empty without one."""


def assign_request_id(
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
        if settings.BEHIND_PROXY:
            response.headers[ROUTE_HEADER] = route_name(request)
        return response

    return answer


def reject_unknown_methods(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: no view is asked with TRACE, CONNECT or a word nobody made."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.method not in METHODS:
            return HttpResponseNotAllowed(METHODS)
        return get_response(request)

    return answer


def accept_any_host_for_monitoring(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: monitors and balancers ask one process by its address on the inside, which is no
    host of ours. What they are answered depends on no host, and leads nowhere."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.path in MONITORING_PATHS:
            request.META["HTTP_HOST"] = (
                settings.ALLOWED_HOSTS[0].replace("*", "localhost").lstrip(".")
            )
        return get_response(request)

    return answer


def require_https_for_api(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: a program that is redirected sends its token in the clear time and again, so it
    is refused instead."""
    if not settings.HTTPS_ONLY:
        raise MiddlewareNotUsed

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.path.startswith("/api/") and not request.is_secure():
            return HttpResponseForbidden("HTTPS only\n", content_type="text/plain")
        return get_response(request)

    return answer


def is_page_request(request: HttpRequest) -> bool:
    """Whether a person's browser asks for a page to show; not a program, nor a script of ours."""
    return (
        request.method == "GET"
        and "text/html" in request.headers.get("Accept", "")
        and request.headers.get("Sec-Fetch-Dest", "document") == "document"
        and "HX-Request" not in request.headers
    )


def route_name(request: HttpRequest) -> str:
    """Name of the route that a request went to. Paths hold ids of patients and orders, links that
    set a password, and whatever somebody typed: none is ever logged."""
    match = request.resolver_match
    return match.view_name if match else UNMATCHED_ROUTE


def request_id_of(request: object) -> str:
    """Id of a request, empty for one that did not pass the middleware."""
    return str(getattr(request, "request_id", ""))


def client_address(request: HttpRequest) -> str | None:
    """Where the request came from: behind our proxy the address the proxy itself saw.

    Hops before the last are what the sender wrote, and prove nothing.
    """
    seen = [request.META.get("REMOTE_ADDR", "")]
    if settings.BEHIND_PROXY:
        seen.insert(0, request.headers.get("X-Forwarded-For", "").rpartition(",")[2])
    for said in seen:
        for text in (said.strip(), _without_port(said.strip())):
            try:
                return str(ip_address(text.partition("%")[0]))
            except ValueError:
                continue
    return None


def _without_port(said: str) -> str:
    try:
        return urlsplit(f"//{said}").hostname or ""
    except ValueError:
        return ""


@contextmanager
def use_request_id(request_id: str) -> Iterator[None]:
    """What is done inside was asked for by an earlier request, as the row it left says."""
    token = current.set(request_id)
    try:
        yield
    finally:
        current.reset(token)
