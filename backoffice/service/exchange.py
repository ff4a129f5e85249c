"""One call to the service, from credentials to typed answer. Interface: errors and limits 1-5.

A GET is tried again on 429, 5xx and connection errors while its deadline lasts; everything else
is sent once, and a write whose answer is lost ends as Uncertain. Nothing here logs, or puts into
an error's text, a path value, a query, a body, a header or a key.
"""

from __future__ import annotations

import functools
import logging
import secrets
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx
import msgspec

from backoffice.service import errors, wire
from backoffice.service.payload import NULL, Page, Reader, Record, Unreadable
from backoffice.service.transport import timeouts

log = logging.getLogger("backoffice.service")
# These log addresses with their query, and headers: a patient's name may be in either.
for _name in ("httpx", "httpcore.connection", "httpcore.http11"):
    logging.getLogger(_name).addFilter(lambda record: False)

T = TypeVar("T")
R = TypeVar("R")

JSON_LIMIT = 8 * 1024 * 1024
PDF_LIMIT = 30 * 1024 * 1024
ERROR_LIMIT = 64 * 1024
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the client sees it; tests pass their own."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


class Budget:
    """What is left of a call's total time, in seconds."""

    __slots__ = ("_clock", "_expires")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._expires = clock.monotonic() + seconds

    def left(self) -> float:
        return self._expires - self._clock.monotonic()


class Key(httpx.Auth):
    """A credential and the header it travels in."""

    def __init__(self, header: str, value: str) -> None:
        if not (value.isascii() and value.isprintable()):
            raise ValueError("a service key must be printable ASCII")
        self._header = header
        self._value = value

    def __repr__(self) -> str:
        return "***"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers[self._header] = self._value
        yield request


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """A JSON body and the moments around it."""

    body: bytes
    response: httpx.Response
    asked_at: datetime


class Document:
    """A PDF on its way: iterate for its bytes, inside the ``with`` that opened it."""

    def __init__(
        self, chunks: Iterator[bytes], content_type: str, length: int | None, asked_at: datetime
    ) -> None:
        self._chunks = chunks
        self.content_type = content_type
        self.length = length
        self.asked_at = asked_at

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks


class Envelope(msgspec.Struct, kw_only=True, gc=False):
    """The parts of a list answer around its records; all of them may be missing or null."""

    items: list[msgspec.Raw] = []
    total: msgspec.Raw = NULL
    page: msgspec.Raw = NULL
    size: msgspec.Raw = NULL
    offset: msgspec.Raw = NULL
    limit: msgspec.Raw = NULL
    next_cursor: msgspec.Raw = NULL


@functools.cache
def _envelope(key: str | None) -> Callable[[bytes], Envelope]:
    """A decoder for a list under ``key``, or for a bare array."""
    if key is None:
        array = msgspec.json.Decoder(list[msgspec.Raw]).decode
        return lambda body: Envelope(items=array(body))
    items = ("items", list[msgspec.Raw], msgspec.field(name=key))
    kind: Any = msgspec.defstruct("Envelope", [items], bases=(Envelope,), kw_only=True, gc=False)
    decode: Callable[[bytes], Envelope] = msgspec.json.Decoder(kind).decode
    return decode


class Exchange:
    """Calls to one interface (one address, one key) over a shared connection pool."""

    def __init__(
        self,
        client: httpx.Client,
        base_url: str,
        key: Key,
        clock: Clock,
        deadline: float,
        attempts: int,
        path_parts: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._base = base_url.rstrip("/")
        self._key = key
        self._clock = clock
        self._deadline = deadline
        self._attempts = attempts
        self.path_parts = dict(path_parts or {})

    def within(self, seconds: float) -> Exchange:
        return Exchange(
            self._client,
            self._base,
            self._key,
            self._clock,
            min(seconds, self._deadline),
            self._attempts,
            self.path_parts,
        )

    def record(
        self, route: str, reader: Reader[T], *, query: wire.Query | None = None, **path: Any
    ) -> Record[T]:
        """One record; Malformed when its typed reading fails."""
        return self._record(self._call("GET", route, query, path, "application/json"), reader)

    def send(
        self,
        method: str,
        route: str,
        reader: Reader[T],
        body: Mapping[str, Any],
        *,
        seconds: float | None = None,
        **path: Any,
    ) -> Record[T]:
        """A write, sent once, and the record it answers with. Uncertain when no answer came or it
        cannot be read: the write may have happened all the same. ``body`` is what httpx takes for
        a body, ``seconds`` how long it may take where that is longer than other calls."""
        call = self._call(method, route, None, path, "application/json")
        call.body = body
        return self._record(call, reader, seconds)

    def _record(self, call: _Call, reader: Reader[T], seconds: float | None = None) -> Record[T]:
        answer = self._json(call, seconds)
        read = reader.read(answer.body, answer.asked_at)
        if isinstance(read, Record):
            return read
        raise call.misshapen(answer, f"{read.reason} at {read.path}", read)

    def page(
        self,
        route: str,
        reader: Reader[T],
        key: str | None = None,
        *,
        query: wire.Query | None = None,
        **path: Any,
    ) -> Page[T]:
        """A list, bare or under ``key``; a record that cannot be read does not spoil the page."""
        call = self._call("GET", route, query, path, "application/json")
        answer = self._json(call)
        problem = ""
        try:
            envelope = _envelope(key)(answer.body)
        except (ValueError, RecursionError):
            problem = "no list where one was promised"
        if problem:
            raise call.misshapen(answer, problem)
        records, unreadable = reader.page(envelope.items, answer.asked_at)
        return Page(
            records,
            unreadable,
            answer.asked_at,
            total=wire.number(envelope.total),
            page=wire.number(envelope.page),
            size=wire.number(envelope.size),
            offset=wire.number(envelope.offset),
            limit=wire.number(envelope.limit),
            next_cursor=wire.word(envelope.next_cursor),
            server_date=wire.http_date(answer.response.headers.get("date")),
        )

    @contextmanager
    def document(
        self, route: str, *, query: wire.Query | None = None, **path: Any
    ) -> Generator[Document, None, None]:
        """A PDF as a stream of at most 30 MiB; the deadline covers the stream too."""
        budget = Budget(self._clock, self._deadline)
        call = self._call("GET", route, query, path, "application/pdf")

        def keep_open(response: httpx.Response, asked_at: datetime) -> Document:
            kind = wire.content_type(response)
            if kind != "application/pdf":
                raise call.unusable(response, "not a PDF")
            length = response.headers.get("content-length", "")
            plain = "content-encoding" not in response.headers
            return Document(
                call.guarded(response, budget, PDF_LIMIT),
                kind,
                int(length) if plain and length.isdigit() else None,
                asked_at,
            )

        response, document = self._answered(call, budget, keep_open)
        try:
            yield document
        finally:
            response.close()

    def _json(self, call: _Call, seconds: float | None = None) -> Answer:
        budget = Budget(self._clock, seconds or self._deadline)

        def read(response: httpx.Response, asked_at: datetime) -> Answer:
            kind = wire.content_type(response)
            if kind != "application/json" and not kind.endswith("+json"):
                raise call.unusable(response, "not JSON")
            body = b"".join(call.guarded(response, budget, JSON_LIMIT))
            if not wire.is_utf8(body):
                raise call.unusable(response, "not UTF-8")
            return Answer(body, response, asked_at)

        response, answer = self._answered(call, budget, read)
        response.close()
        return answer

    def _call(
        self,
        method: str,
        route: str,
        query: wire.Query | None,
        path: Mapping[str, Any],
        accept: str,
    ) -> _Call:
        return _Call(
            method=method,
            route=route,
            url=self._base + wire.filled(route, path),
            query=wire.pairs(query or {}),
            accept=accept,
        )

    def _answered(
        self, call: _Call, budget: Budget, consume: Callable[[httpx.Response, datetime], R]
    ) -> tuple[httpx.Response, R]:
        """Send until there is a usable answer, or raise the error that ended it."""
        attempts = self._attempts if call.method == "GET" else 1
        attempt = 1
        while True:
            outcome, asked = self._once(call, budget, consume)
            if not isinstance(outcome, errors.ServiceError):
                return outcome
            wait = asked if asked is not None else wire.backoff(attempt)
            again = type(outcome) in (errors.Limited, errors.Unreachable)
            if not again or attempt >= attempts or wait >= budget.left():
                # Raised here, not where it was caught: the cause's own text may hold the address.
                raise outcome
            self._clock.sleep(wait)
            attempt += 1

    def _once(
        self, call: _Call, budget: Budget, consume: Callable[[httpx.Response, datetime], R]
    ) -> tuple[tuple[httpx.Response, R] | errors.ServiceError, float | None]:
        """One attempt: the answer or the error, and the seconds the service asks us to wait."""
        started = self._clock.monotonic()
        status: int | None = None
        wait: float | None = None
        outcome: tuple[httpx.Response, R] | errors.ServiceError
        response: httpx.Response | None = None
        try:
            asked_at, response = self._sent(call, budget)
            status = response.status_code
            if status == 200 or (call.method != "GET" and status in (201, 202, 204)):
                outcome = response, consume(response, asked_at)
            else:
                wait = wire.retry_after(response, self._clock.now())
                outcome = call.refusal(response, budget, wait)
        except errors.ServiceError as error:
            outcome = error
        except httpx.TransportError as error:
            outcome = call.lost(error, status)
        except BaseException:  # a task's time limit, or Ctrl-C: give the connection back first
            if response is not None:
                response.close()
            raise
        if isinstance(outcome, errors.ServiceError) and response is not None:
            response.close()
        log.info(
            "%s %s %s %d ms trace %s",
            call.method,
            call.route,
            status or type(outcome).__name__,
            (self._clock.monotonic() - started) * 1000,
            call.trace_id,
        )
        return outcome, wait

    def _sent(self, call: _Call, budget: Budget) -> tuple[datetime, httpx.Response]:
        """The open response, after at most one hop that only adds or drops a final slash."""
        url = call.url
        for hop in (0, 1):
            request = self._client.build_request(
                call.method,
                url,
                params=call.query or None,
                **call.body,
                headers={"accept": call.accept, "traceparent": call.traceparent()},
            )
            request.extensions["timeout"] = timeouts(budget.left())
            asked_at = self._clock.now()
            response = self._client.send(request, auth=self._key, stream=True)
            if not 300 <= response.status_code < 400:
                return asked_at, response
            response.close()
            target = wire.slash_only(request.url, response.headers.get("location", ""))
            if hop or target is None or call.method != "GET":
                break
            url = target
        raise call.error(errors.Redirected, response, reason="redirect refused")


class Chapter:
    """The calls of one chapter of the interface."""

    def __init__(self, call: Exchange) -> None:
        self._call = call


@dataclass(slots=True, repr=False)
class _Call:
    """A call under way: what its attempts share, and how its failures are told."""

    method: str
    route: str
    url: str
    query: wire.Pairs
    accept: str
    body: Mapping[str, Any] = field(default_factory=dict)
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
        kind = errors.Malformed if self.method == "GET" else errors.Uncertain
        return self.error(kind, response, reason=reason)

    def misshapen(
        self, answer: Answer, reason: str, unreadable: Unreadable | None = None
    ) -> errors.ServiceError:
        """A JSON answer of the wrong shape: to a write, it leaves the outcome unknown."""
        if self.method != "GET":
            return self.error(errors.Uncertain, answer.response, reason=reason)
        told = {"reason": reason, "unreadable": unreadable}
        return self.error(errors.Malformed, answer.response, **told)

    def lost(self, error: httpx.TransportError, status: int | None) -> errors.ServiceError:
        """No whole answer. A write that may have left is uncertain."""
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        certain = self.method == "GET" or isinstance(error, unsent)
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
        message, fields = self._words(response, budget)
        if status == 429:
            wait = 5.0 if wait is None else wait
            return self.error(errors.Limited, response, retry_after=wait, message=message)
        if status >= 500 or status == 408:
            if self.method != "GET":
                return self.error(errors.Uncertain, response, message=message)
            return self.error(errors.Unreachable, response, retry_after=wait, message=message)
        if status == 404:
            return self.error(errors.Missing, response, message=message)
        refused = errors.Denied if status in (401, 403) else errors.Refused
        return self.error(refused, response, message=message, fields=fields)

    def _words(
        self, response: httpx.Response, budget: Budget
    ) -> tuple[str, tuple[errors.FieldError, ...]]:
        try:
            body = b"".join(self.guarded(response, budget, ERROR_LIMIT))
        except errors.ServiceError:
            return "", ()
        return wire.words(body)

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
