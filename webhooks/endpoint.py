"""The webhook endpoint as a WSGI application: `POST /webhooks/`.

`backoffice.wsgi` calls it directly, without the middleware of the pages and without Django's
request and response objects. Together they cost as much as everything else on receipt.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

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
"""The header that Django's middleware sets on every other response."""


def webhook_application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer one delivery as a WSGI application."""
    began = time.perf_counter()
    status, headers, body = respond(environ)
    duration_metrics.record_request(
        "webhooks", environ["REQUEST_METHOD"], status, time.perf_counter() - began
    )
    if settings.HTTPS_ONLY:
        headers = [*headers, STRICT_TRANSPORT_SECURITY]
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


def respond(environ: WSGIEnvironment) -> tuple[int, Headers, bytes]:
    """Return status, headers and body.

    The status is 204 once the event is committed, else 4xx or 503 with the reason in a few words.
    It never redirects, because the sender counts a redirect as a failure.
    """
    if environ["REQUEST_METHOD"] != "POST":
        return _response(405, "deliveries are posted", ("Allow", "POST"))
    if settings.HTTPS_ONLY and not _is_https(environ):
        return _response(403, "HTTPS only")
    try:
        result = receiving.receive(_headers(environ), environ["wsgi.input"].read)
    except Exception as error:
        # The sender tries again. The text of the error is not logged: it may quote the body.
        logger.error("a delivery failed: %s", type(error).__name__)
        result = receiving.DeliveryResponse(503, "not stored", receiving.RETRY_AFTER)
    if result.retry_after is not None:
        return _response(result.status, result.reason, ("Retry-After", str(result.retry_after)))
    return _response(result.status, result.reason)


def _is_https(environ: WSGIEnvironment) -> bool:
    """Return whether the request is secure, as `HttpRequest.is_secure` does.

    That is by the header of the proxy, if the settings trust one.
    """
    if settings.SECURE_PROXY_SSL_HEADER is not None:
        variable, secure = settings.SECURE_PROXY_SSL_HEADER
        if variable in environ:
            header: str = environ[variable]
            return header.partition(",")[0].strip() == secure
    return bool(environ["wsgi.url_scheme"] == "https")


def _headers(environ: WSGIEnvironment) -> dict[str, str]:
    """Return the headers that `receive` needs, by lower-case name."""
    prefixes = tuple(settings.WEBHOOK_HEADER_PREFIXES)
    headers = {name: environ.get(variable) for name, variable in _header_variables(prefixes)}
    if not headers["content-length"] and "HTTP_TRANSFER_ENCODING" not in environ:
        # There is no body. Without a length, a server may wait for one forever.
        headers["content-length"] = "0"
    return {name: value for name, value in headers.items() if value is not None}


@lru_cache(maxsize=8)
def _header_variables(prefixes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return pairs of a header's lower-case name and its WSGI variable."""
    names = [f"{prefix}-{part}" for prefix in prefixes for part in ("id", "timestamp", "signature")]
    pairs = [(name, "HTTP_" + name.upper().replace("-", "_")) for name in names]
    pairs += [("content-length", "CONTENT_LENGTH"), ("content-encoding", "HTTP_CONTENT_ENCODING")]
    return tuple(pairs)


def _response(status: int, reason: str, *headers: tuple[str, str]) -> tuple[int, Headers, bytes]:
    if not reason:
        return status, [*headers], b""
    body = f"{reason}\n".encode()
    text_headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("X-Content-Type-Options", "nosniff"),
    ]
    return status, [*text_headers, *headers], body
