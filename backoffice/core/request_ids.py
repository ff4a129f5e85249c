"""Request ids, created only here, and what else identifies a request: route and client address.

The id is in the response header, the log lines and the audit entry.
"""

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
"""Header with the route name, which the proxy logs instead of the path and then removes."""
UNMATCHED_ROUTE: Final = "unmatched"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Methods that browsers and API clients send."""
MONITORING_PATHS: Final = frozenset(
    {"/health/live", "/health/ready", "/health/status", "/health/inbox", "/metrics"}
)
"""Paths that monitors request inside the network, over plain HTTP and with any host name."""

current: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request that this thread answers or works for; empty without one."""


def assign_request_id(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware that gives every request a new id.

    An id that the client sent is ignored: ids in the audit trail must be ours.
    """

    def answer(request: HttpRequest) -> HttpResponseBase:
        request_id = uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]
        request.began = timezone.now()  # type: ignore[attr-defined]
        token = current.set(request_id)
        try:
            response = get_response(request)
        finally:
            current.reset(token)
        response.headers[HEADER] = request_id
        if settings.BEHIND_PROXY:
            response.headers[ROUTE_HEADER] = route_name(request)
        return response

    return answer


def reject_unknown_methods(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware that refuses TRACE, CONNECT and unknown methods."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.method not in METHODS:
            return HttpResponseNotAllowed(METHODS)
        return get_response(request)

    return answer


def accept_any_host_for_monitoring(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware that accepts any host name for monitoring paths.

    Monitors and load balancers address one process inside the network, by a name that is not in
    ALLOWED_HOSTS. The answers depend on no host and contain no links.
    """

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
    """Middleware that refuses API requests over plain HTTP.

    A redirected program would send its token unencrypted again and again.
    """
    if not settings.HTTPS_ONLY:
        raise MiddlewareNotUsed

    def answer(request: HttpRequest) -> HttpResponseBase:
        if request.path.startswith("/api/") and not request.is_secure():
            return HttpResponseForbidden("HTTPS only\n", content_type="text/plain")
        return get_response(request)

    return answer


def is_page_request(request: HttpRequest) -> bool:
    """Return whether a browser requests a whole page: not a program, not one of our scripts."""
    return (
        request.method == "GET"
        and "text/html" in request.headers.get("Accept", "")
        and request.headers.get("Sec-Fetch-Dest", "document") == "document"
        and "HX-Request" not in request.headers
    )


def route_name(request: HttpRequest) -> str:
    """Return the name of the route of a request, for logs.

    Paths are never logged: they hold ids of patients and orders, password links and typed text.
    """
    match = request.resolver_match
    return match.view_name if match else UNMATCHED_ROUTE


def request_id_of(request: object) -> str:
    """Return the id of a request; empty for one that did not pass the middleware."""
    return str(getattr(request, "request_id", ""))


def client_address(request: HttpRequest) -> str | None:
    """Return the client address; behind our proxy the address that the proxy saw.

    Earlier hops of X-Forwarded-For come from the client and prove nothing.
    """
    candidates = [request.META.get("REMOTE_ADDR", "")]
    if settings.BEHIND_PROXY:
        candidates.insert(0, request.headers.get("X-Forwarded-For", "").rpartition(",")[2])
    for candidate in candidates:
        for text in (candidate.strip(), _without_port(candidate.strip())):
            try:
                return str(ip_address(text.partition("%")[0]))
            except ValueError:
                continue
    return None


def _without_port(text: str) -> str:
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


@contextmanager
def use_request_id(request_id: str) -> Iterator[None]:
    """Work under the id of the earlier request that asked for the work, as its row says."""
    token = current.set(request_id)
    try:
        yield
    finally:
        current.reset(token)
