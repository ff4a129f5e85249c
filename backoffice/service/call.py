"""One request under way: what its attempts share, its clocks, and how its failures are told.

A call either *reads* (also a POST that only asks) or writes. A failed read changed nothing; a
write that may have left and has no certain answer is Uncertain.
"""

from __future__ import annotations

import re
import secrets
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from backoffice.service import errors, wire
from backoffice.service.payload import Unreadable

ERROR_LIMIT = 64 * 1024
_PIECE = 64 * 1024
_NOT_ENABLED = re.compile(r"\bnot\b.{0,40}\b(enabled|activated|configured)|\bdisabled\b", re.I)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the client sees it; tests pass their own."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Watch:
    """What the caller knows of each request: the id of the wish it belongs to, which goes along as
    `X-Request-ID`, and how each attempt went: operation (`GET /v3/orders/{order_id}`), status or
    class of the error, seconds. `began` and `failed` are called with the operation of an attempt
    and the error it ended with. None of them may raise."""

    request_id: Callable[[], str] = str
    began: Callable[[str], None] = lambda operation: None
    failed: Callable[[errors.ServiceError], None] = lambda error: None
    ended: Callable[[str, str, float], None] = lambda operation, outcome, seconds: None


class Budget:
    """What is left of a call's total time, in seconds."""

    __slots__ = ("_clock", "_expires")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._expires = clock.monotonic() + seconds

    def left(self) -> float:
        return self._expires - self._clock.monotonic()


@dataclass(slots=True, repr=False)
class Call:
    """``reads``: it changes nothing at the service, whatever its method."""

    method: str
    route: str
    url: str
    query: wire.Pairs
    accept: str
    reads: bool
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))

    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{secrets.token_hex(8)}-01"

    def error(
        self, kind: type[errors.ServiceError], response: httpx.Response, **more: Any
    ) -> errors.ServiceError:
        return kind(
            status=response.status_code,
            route=f"{self.method} {self.route}",
            trace_id=self.trace_id,
            request_id=wire.request_id(response),
            **more,
        )

    def unusable(self, response: httpx.Response, reason: str) -> errors.ServiceError:
        """An answer that cannot be read: to a write, it leaves the outcome unknown."""
        kind = errors.Malformed if self.reads else errors.Uncertain
        return self.error(kind, response, reason=reason)

    def misshapen(
        self, response: httpx.Response, reason: str, unreadable: Unreadable | None = None
    ) -> errors.ServiceError:
        """A JSON answer of the wrong shape: to a write, it leaves the outcome unknown."""
        if not self.reads:
            return self.error(errors.Uncertain, response, reason=reason)
        return self.error(errors.Malformed, response, reason=reason, unreadable=unreadable)

    def redirected(self, response: httpx.Response) -> errors.ServiceError:
        """Not followed. A write may have happened before it: 303 says just that."""
        kind = errors.Redirected if self.reads else errors.Uncertain
        return self.error(kind, response, reason="redirect refused")

    def lost(self, error: httpx.TransportError, status: int | None) -> errors.ServiceError:
        """No whole answer. A write that may have left is uncertain."""
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        certain = self.reads or isinstance(error, unsent)
        kind = errors.Unreachable if certain else errors.Uncertain
        return kind(
            status=status,
            route=f"{self.method} {self.route}",
            trace_id=self.trace_id,
            reason=type(error).__name__,
        )

    def refusal(
        self, response: httpx.Response, budget: Budget, wait: float | None
    ) -> errors.ServiceError:
        """The error of an answer that is not a success (errors and limits, chapter 1)."""
        status = response.status_code
        if status < 400:
            return self.unusable(response, "unexpected status")
        said = wire.words(self._beginning(response, budget))
        if status == 429:
            wait = 5.0 if wait is None else wait
            return self.error(errors.Limited, response, retry_after=wait, message=said.message)
        if status == 503 and "/psc/" in self.route and _NOT_ENABLED.search(said.message):
            return self.error(errors.NotEnabled, response, message=said.message)
        if status >= 500 or status == 408:
            if not self.reads:
                return self.error(errors.Uncertain, response, message=said.message)
            return self.error(errors.Unreachable, response, retry_after=wait, message=said.message)
        if status == 409 and "x-idempotency-key" in self.headers:
            # A request with this key is still at work, and may yet succeed.
            reason = "idempotency key at work"
            return self.error(errors.Uncertain, response, reason=reason, message=said.message)
        if status == 404:
            return self.error(errors.Missing, response, message=said.message)
        words: dict[str, Any] = {"message": said.message, "fields": said.fields}
        if status in (401, 403):
            return self.error(errors.Denied, response, **words)
        if status in (400, 409) and said.existing is not None:
            return self.error(errors.Duplicate, response, existing_id=said.existing, **words)
        return self.error(errors.Refused, response, **words)

    def _beginning(self, response: httpx.Response, budget: Budget) -> bytes:
        """As much of an error's body as arrives whole, in time and within the limit."""
        body = bytearray()
        try:
            for piece in self.guarded(response, budget, ERROR_LIMIT):
                body += piece
        except errors.ServiceError:
            pass
        return bytes(body)

    def guarded(self, response: httpx.Response, budget: Budget, limit: int) -> Iterator[bytes]:
        """The body, decompressed here in bounded pieces: at most ``limit`` bytes, in time."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", ""):
            raise self.unusable(response, "unknown content encoding")
        unzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        size = 0
        failure: errors.ServiceError | None = None
        try:
            for chunk in response.iter_raw():
                if budget.left() <= 0:
                    raise self.lost(httpx.ReadTimeout("deadline"), response.status_code)
                for piece in _pieces(unzip, chunk):
                    size += len(piece)
                    if size > limit:
                        raise self.unusable(response, "too large")
                    yield piece
            if unzip is not None and not unzip.eof:
                raise self.unusable(response, "cut short")
        except httpx.TransportError as error:
            failure = self.lost(error, response.status_code)
        except zlib.error:
            failure = self.unusable(response, "broken compression")
        if failure is not None:
            raise failure


def _pieces(unzip: Any, chunk: bytes) -> Iterator[bytes]:
    if unzip is None:
        yield chunk
        return
    if unzip.eof:
        raise zlib.error("data after the end")
    piece = unzip.decompress(chunk, _PIECE)
    while piece:
        yield piece
        piece = unzip.decompress(unzip.unconsumed_tail, _PIECE) if not unzip.eof else b""
