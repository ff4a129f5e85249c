"""One call of the service: the state its attempts share, its time budget, and its errors.

A call is a read or a write. A read changes nothing at the service, even when its method is POST.
After a failed read, nothing has changed. A write that may have been sent and has no certain answer
is Uncertain.
"""

from __future__ import annotations

import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO, TypedDict

import httpx

from backoffice.service import errors, wire
from backoffice.service.json_text import JsonObject
from backoffice.service.payload import Unreadable

ERROR_LIMIT = 64 * 1024
_PIECE = 64 * 1024
_NOT_ENABLED = re.compile(r"\bnot\b.{0,40}\b(enabled|activated|configured)|\bdisabled\b", re.I)


@dataclass(frozen=True, slots=True)
class Clock:
    """The time functions of the client; tests pass their own."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Watch:
    """Callbacks around each attempt; none of them may raise.

    `request_id` returns the id to send as `X-Request-ID`. `began` receives the operation (`GET
    /v3/orders/{order_id}`). `failed` receives the error of the attempt. `ended` receives the
    operation, the status or error class, and the duration in seconds.
    """

    request_id: Callable[[], str] = str
    began: Callable[[str], None] = lambda operation: None
    failed: Callable[[errors.ServiceError], None] = lambda error: None
    ended: Callable[[str, str, float], None] = lambda operation, outcome, seconds: None


class Budget:
    """The remaining time of a call, in seconds."""

    __slots__ = ("_clock", "_expires")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._expires = clock.monotonic() + seconds

    def left(self) -> float:
        return self._expires - self._clock.monotonic()


class BodyArguments(TypedDict, total=False):
    """The body of a request, as arguments of httpx; empty for none."""

    json: JsonObject
    data: dict[str, str]
    files: list[tuple[str, tuple[str, BinaryIO, str]]]


@dataclass(slots=True, repr=False)
class Call:
    """One call; ``reads`` means that it changes nothing at the service, whatever its method."""

    method: str
    route: str
    url: str
    query: wire.Pairs
    accept: str
    reads: bool
    body: BodyArguments = field(default_factory=BodyArguments)
    headers: Mapping[str, str] = field(default_factory=dict)
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))

    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{secrets.token_hex(8)}-01"

    def error(
        self, kind: type[errors.ServiceError], response: httpx.Response, **details: Any
    ) -> errors.ServiceError:
        return kind(
            status=response.status_code,
            route=f"{self.method} {self.route}",
            trace_id=self.trace_id,
            request_id=wire.request_id(response),
            **details,
        )

    def unusable_error(self, response: httpx.Response, reason: str) -> errors.ServiceError:
        """Return the error of an unreadable answer; the outcome of a write stays unknown."""
        kind = errors.Malformed if self.reads else errors.Uncertain
        return self.error(kind, response, reason=reason)

    def shape_error(
        self, response: httpx.Response, reason: str, unreadable: Unreadable | None = None
    ) -> errors.ServiceError:
        """Return the error of JSON in the wrong shape; the outcome of a write stays unknown."""
        if not self.reads:
            return self.error(errors.Uncertain, response, reason=reason)
        return self.error(errors.Malformed, response, reason=reason, unreadable=unreadable)

    def redirect_error(self, response: httpx.Response) -> errors.ServiceError:
        """Return the error of a redirect.

        The service may have done a write before it answered with the redirect, as 303 means.
        """
        kind = errors.Redirected if self.reads else errors.Uncertain
        return self.error(kind, response, reason="redirect refused")

    def transport_error(
        self, error: httpx.TransportError, status: int | None
    ) -> errors.ServiceError:
        """Return the error of an incomplete answer.

        A write that may have been sent is Uncertain.
        """
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        certain = self.reads or isinstance(error, unsent)
        kind = errors.Unreachable if certain else errors.Uncertain
        return kind(
            status=status,
            route=f"{self.method} {self.route}",
            trace_id=self.trace_id,
            reason=type(error).__name__,
        )

    def error_of_response(
        self, response: httpx.Response, budget: Budget, wait: float | None
    ) -> errors.ServiceError:
        """Return the error of an unsuccessful answer (errors and limits, chapter 1)."""
        status = response.status_code
        if status < 400:
            return self.unusable_error(response, "unexpected status")
        error_body = wire.parse_error_body(self._read_error_body(response, budget))
        if status == 429:
            wait = 5.0 if wait is None else wait
            return self.error(
                errors.Limited, response, retry_after=wait, message=error_body.message
            )
        if status == 503 and "/psc/" in self.route and _NOT_ENABLED.search(error_body.message):
            return self.error(errors.NotEnabled, response, message=error_body.message)
        if status >= 500 or status == 408:
            if not self.reads:
                return self.error(errors.Uncertain, response, message=error_body.message)
            return self.error(
                errors.Unreachable, response, retry_after=wait, message=error_body.message
            )
        if status == 409 and "x-idempotency-key" in self.headers:
            # Another request with this key is in progress and may still succeed.
            reason = "idempotency key at work"
            return self.error(errors.Uncertain, response, reason=reason, message=error_body.message)
        if status == 404:
            return self.error(errors.Missing, response, message=error_body.message)
        kind: type[errors.Refused] = errors.Refused
        existing = {}
        if status in (401, 403):
            kind = errors.Denied
        elif status in (400, 409) and error_body.existing is not None:
            kind, existing = errors.Duplicate, {"existing_id": error_body.existing}
        return self.error(
            kind, response, message=error_body.message, fields=error_body.fields, **existing
        )

    def _read_error_body(self, response: httpx.Response, budget: Budget) -> bytes:
        """Return the part of an error body that arrives in time and within the limit."""
        body = bytearray()
        try:
            for piece in self.read_body(response, budget, ERROR_LIMIT):
                body += piece
        except errors.ServiceError:
            pass
        return bytes(body)

    def read_body(self, response: httpx.Response, budget: Budget, limit: int) -> Iterator[bytes]:
        """Yield the decompressed body in bounded pieces.

        Raises an error when the body is longer than ``limit`` bytes, or when the budget ends first.
        """
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", ""):
            raise self.unusable_error(response, "unknown content encoding")
        unzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        size = 0
        failure: errors.ServiceError | None = None
        try:
            for chunk in response.iter_raw():
                if budget.left() <= 0:
                    raise self.transport_error(httpx.ReadTimeout("deadline"), response.status_code)
                for piece in _decompress(unzip, chunk):
                    size += len(piece)
                    if size > limit:
                        raise self.unusable_error(response, "too large")
                    yield piece
            if unzip is not None and not unzip.eof:
                raise self.unusable_error(response, "cut short")
        except httpx.TransportError as error:
            failure = self.transport_error(error, response.status_code)
        except zlib.error:
            failure = self.unusable_error(response, "broken compression")
        if failure is not None:
            raise failure


def _decompress(unzip: zlib._Decompress | None, chunk: bytes) -> Iterator[bytes]:
    if unzip is None:
        yield chunk
        return
    if unzip.eof:
        raise zlib.error("data after the end")
    piece = unzip.decompress(chunk, _PIECE)
    while piece:
        yield piece
        piece = unzip.decompress(unzip.unconsumed_tail, _PIECE) if not unzip.eof else b""
