"""The door for deliveries, straight from the server: `POST /webhooks/`.

Neither the middleware that pages need nor Django's request and response pass here: together they
cost as much as all the rest of receiving.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

from django.conf import settings

from backoffice.core import duration_metrics
from webhooks import receiving

logger = logging.getLogger(__name__)

ENDPOINT_PATHS: Final = frozenset({"/webhooks", "/webhooks/"})
Headers = list[tuple[str, str]]
STRICT_TRANSPORT_SECURITY: Final = (
    "Strict-Transport-Security",
    "max-age=63072000; includeSubDomains; preload",
)
"""As Django's middleware says it on every other answer."""


def webhook_application(
    environ: dict[str, Any], start_response: Callable[..., Any]
) -> Iterable[bytes]:
    """As a WSGI application."""
    began = time.perf_counter()
    status, headers, body = respond(environ)
    duration_metrics.answered(
        "webhooks", environ["REQUEST_METHOD"], status, time.perf_counter() - began
    )
    if settings.HTTPS_ONLY:
        headers = [*headers, STRICT_TRANSPORT_SECURITY]
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


def respond(environ: Mapping[str, Any]) -> tuple[int, Headers, bytes]:
    """204 once the event is committed; else 4xx or 503 with the reason in a few plain words.

    Never a redirect, which the sender counts as a failure.
    """
    if environ["REQUEST_METHOD"] != "POST":
        return _response(405, "deliveries are posted", ("Allow", "POST"))
    if settings.HTTPS_ONLY and not _is_https(environ):
        return _response(403, "HTTPS only")
    try:
        found = receiving.receive(_headers(environ), environ["wsgi.input"].read)
    except Exception as error:
        # The sender tries again; the text of the error may quote the body.
        logger.error("a delivery failed: %s", type(error).__name__)
        found = receiving.DeliveryResponse(503, "not stored", receiving.RETRY_AFTER)
    if found.retry_after is not None:
        return _response(found.status, found.reason, ("Retry-After", str(found.retry_after)))
    return _response(found.status, found.reason)


def _is_https(environ: Mapping[str, Any]) -> bool:
    """As Django tells it: the proxy's word counts where the settings trust one."""
    if settings.SECURE_PROXY_SSL_HEADER is not None:
        variable, secure = settings.SECURE_PROXY_SSL_HEADER
        if variable in environ:
            said: str = environ[variable]
            return said.partition(",")[0].strip() == secure
    return bool(environ["wsgi.url_scheme"] == "https")


def _headers(environ: Mapping[str, Any]) -> dict[str, str]:
    """What a delivery is told by, by lower-case name."""
    prefixes = tuple(settings.WEBHOOK_HEADER_PREFIXES)
    found = {name: environ.get(variable) for name, variable in _header_variables(prefixes)}
    if not found["content-length"] and "HTTP_TRANSFER_ENCODING" not in environ:
        # No body at all: a server may wait for ever for one.
        found["content-length"] = "0"
    return {name: value for name, value in found.items() if value is not None}


@lru_cache(maxsize=8)
def _header_variables(prefixes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Headers by lower-case name, and as WSGI calls them."""
    signed = [
        f"{prefix}-{part}" for prefix in prefixes for part in ("id", "timestamp", "signature")
    ]
    names = [(name, "HTTP_" + name.upper().replace("-", "_")) for name in signed]
    names += [("content-length", "CONTENT_LENGTH"), ("content-encoding", "HTTP_CONTENT_ENCODING")]
    return tuple(names)


def _response(status: int, words: str, *headers: tuple[str, str]) -> tuple[int, Headers, bytes]:
    if not words:
        return status, [*headers], b""
    body = f"{words}\n".encode()
    plain = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("X-Content-Type-Options", "nosniff"),
    ]
    return status, [*plain, *headers], body
