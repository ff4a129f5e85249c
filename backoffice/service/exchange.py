"""One call to the service, from credentials to typed answer. Interface: errors and limits 1-5.

A read is retried on 429, 5xx, and connection errors until its deadline. A write is sent once, with
or without an idempotency key: the caller that recorded the write decides about a retry. This module
never writes a path value, a query, a body, a header, or a key to the log or to the text of an
error.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import httpx
import msgspec

from backoffice.service import errors, json_text, wire
from backoffice.service.call import BodyArguments, Budget, Call, Clock, Watch
from backoffice.service.list_envelope import parse_list
from backoffice.service.payload import Reader, Record, RecordPage, RequestBody
from backoffice.service.transport import READ_SECONDS, timeouts

log = logging.getLogger("backoffice.service")
# These loggers write URLs with their query, and headers. Both may contain a patient's name.
for _name in ("httpx", "httpcore.connection", "httpcore.http11"):
    logging.getLogger(_name).addFilter(lambda record: False)

T = TypeVar("T")
R = TypeVar("R")

JSON_LIMIT = 8 * 1024 * 1024
PDF_LIMIT = 30 * 1024 * 1024
WRITE_SECONDS = 30.0
"""Seconds that a write may take in total, with its body and its answer."""
LOOKUP_SECONDS = 5.0
"""Seconds that a lookup may take while a person waits for a page."""


class Key(httpx.Auth):
    """A credential and the header that carries it."""

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
    """A JSON body with its response, and the time when the request was sent."""

    body: bytes
    response: httpx.Response
    asked_at: datetime


class Document:
    """A PDF that is being received: iterate over its bytes inside the ``with`` that opened it."""

    def __init__(
        self, chunks: Iterator[bytes], content_type: str, length: int | None, asked_at: datetime
    ) -> None:
        self._chunks = chunks
        self.content_type = content_type
        self.length = length
        self.asked_at = asked_at

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks


def as_json(body: RequestBody | Mapping[str, object]) -> BodyArguments:
    """Return a JSON body as arguments of httpx; fields that were not set are not sent."""
    return {"json": msgspec.to_builtins(body)}


def idempotency_headers(idempotency_key: str | None, no_cache: bool = False) -> dict[str, str]:
    """Return the headers that give a second request with the same key the first answer.

    With ``no_cache`` the service stores only a success for the key.
    """
    if idempotency_key is None:
        return {}
    plain = idempotency_key.isascii() and idempotency_key.isprintable()
    if not plain or not 1 <= len(idempotency_key.strip()) == len(idempotency_key) <= 255:
        raise ValueError("an idempotency key is 1 to 255 printable ASCII characters")
    refused = {"x-idempotency-error": "no-cache"} if no_cache else {}
    return {"x-idempotency-key": idempotency_key, **refused}


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Exchange:
    """Calls to one interface (one base URL, one key) over shared connections.

    ``reader`` reuses its connections. ``writer`` opens a new one for each call (see
    :class:`~backoffice.service.Service`). ``path_parts`` are values for every route.
    """

    def __init__(
        self,
        reader: httpx.Client,
        writer: httpx.Client,
        base_url: str,
        key: Key,
        clock: Clock,
        deadline: float,
        attempts: int,
        path_parts: Mapping[str, str] | None = None,
        write_deadline: float = WRITE_SECONDS,
        watch: Watch | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._base = base_url.rstrip("/")
        self._key = key
        self._clock = clock
        self._deadline = deadline
        self._attempts = attempts
        self._path_parts = dict(path_parts or {})
        self._write_deadline = write_deadline
        self._watch = watch or Watch()
        self._ends = math.inf

    def within(self, seconds: float) -> Exchange:
        changed = copy.copy(self)
        changed._deadline = min(seconds, self._deadline)
        changed._write_deadline = min(seconds, self._write_deadline)
        return changed

    def until(self, moment: float) -> Exchange:
        """Return a copy with calls that must end before this monotonic time.

        After that time no call is sent.
        """
        changed = copy.copy(self)
        changed._ends = min(moment, self._ends)
        return changed

    def record(
        self,
        route: str,
        reader: Reader[T],
        *,
        query: wire.Query | None = None,
        **path: object,
    ) -> Record[T]:
        """Read one record; raises Malformed when it does not fit its type."""
        call = self._call("GET", route, path, query)
        return self._record(call, self._json(call, self._deadline), reader)

    def look_up(
        self,
        route: str,
        reader: Reader[T],
        *,
        query: wire.Query | None = None,
        body: BodyArguments | None = None,
        **path: object,
    ) -> Record[T]:
        """Read the answer of a POST that changes nothing; it is retried like any read."""
        call = self._call("POST", route, path, query, body, reads=True)
        return self._record(call, self._json(call, self._lookup_seconds()), reader)

    def send(
        self,
        method: str,
        route: str,
        reader: Reader[T],
        body: BodyArguments | None = None,
        *,
        member: str | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        **path: object,
    ) -> Record[T]:
        """Send a write once and return the record of its answer, under ``member`` or as a whole.

        Raises Uncertain when no readable answer arrived: the write may have happened. ``body``
        holds the body arguments of httpx. ``seconds`` sets a longer deadline than that of other
        writes.
        """
        call = self._call(method, route, path, None, body, headers)
        answer = self._json(call, seconds or self._write_deadline)
        if member is not None:
            raw = self._member(call, answer, member)
            if raw is None:
                raise call.shape_error(answer.response, f"no {member}")
            answer = Answer(raw, answer.response, answer.asked_at)
        return self._record(call, answer, reader)

    def send_for_optional_record(
        self,
        method: str,
        route: str,
        reader: Reader[T],
        body: BodyArguments,
        *,
        member: str,
        **path: object,
    ) -> Record[T] | None:
        """Send a write like :meth:`send` whose answer may be null instead of the record."""
        call = self._call(method, route, path, None, body)
        answer = self._json(call, self._write_deadline)
        raw = self._member(call, answer, member)
        if raw is None:
            return None
        return self._record(call, Answer(raw, answer.response, answer.asked_at), reader)

    def send_without_record(
        self,
        method: str,
        route: str,
        body: BodyArguments | None = None,
        *,
        query: wire.Query | None = None,
        **path: object,
    ) -> None:
        """Send a write whose answer has no record: an empty body, or any JSON.

        ``{"success": false}`` is a refusal.
        """
        call = self._call(method, route, path, query, body)
        answer = self._json(call, self._write_deadline, empty=True)
        try:
            decoded = msgspec.json.decode(answer.body) if answer.body else None
        except (ValueError, RecursionError):
            decoded = call
        if decoded is call:
            raise call.shape_error(answer.response, "no JSON")
        if isinstance(decoded, dict) and decoded.get("success") is False:
            error_body = wire.parse_error_body(answer.body)
            raise call.error(errors.Refused, answer.response, message=error_body.message)

    def _budget(self, seconds: float) -> Budget:
        return Budget(self._clock, min(seconds, self._ends - self._clock.monotonic()))

    def _lookup_seconds(self) -> float:
        return min(self._deadline, LOOKUP_SECONDS)

    def _member(self, call: Call, answer: Answer, name: str) -> bytes | None:
        """Return the bytes of one member of an answer, or None when it is null."""
        part: msgspec.Raw | None = None
        try:
            part = _decode_object(answer.body).get(name)
        except (ValueError, RecursionError):
            with suppress(ValueError, RecursionError):
                part = _decode_object(json_text.make_decodable(answer.body)).get(name)
        if part is None:
            raise call.shape_error(answer.response, f"no {name}")
        raw = bytes(part)
        return None if raw == b"null" else raw

    def _record(self, call: Call, answer: Answer, reader: Reader[T]) -> Record[T]:
        read = reader.read(answer.body, answer.asked_at)
        if isinstance(read, Record):
            return read
        raise call.shape_error(answer.response, f"{read.reason} at {read.path}", read)

    def page(
        self,
        route: str,
        reader: Reader[T],
        key: str | None = None,
        *,
        query: wire.Query | None = None,
        body: BodyArguments | None = None,
        quick: bool = False,
        **path: object,
    ) -> RecordPage[T]:
        """Read a list, bare or under ``key``; unreadable records are returned separately.

        With a ``body`` the method is POST. ``quick`` means that a person waits for the answer.
        """
        method = "GET" if body is None else "POST"
        call = self._call(method, route, path, query, body, reads=True)
        answer = self._json(call, self._lookup_seconds() if quick else self._deadline)
        envelope = parse_list(answer.body, key)
        if envelope is None:
            raise call.shape_error(answer.response, "no list where one was promised")
        records, unreadable = reader.page(envelope.items, answer.asked_at)
        return RecordPage(
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
        self, route: str, *, query: wire.Query | None = None, **path: object
    ) -> Generator[Document, None, None]:
        """Open a PDF as a stream of at most 30 MiB; the deadline covers the stream too."""
        budget = self._budget(self._deadline)
        call = self._call("GET", route, path, query, accept="application/pdf")

        def open_document(response: httpx.Response, asked_at: datetime) -> Document:
            kind = wire.content_type(response)
            if kind != "application/pdf":
                raise call.unusable_error(response, "not a PDF")
            length = response.headers.get("content-length", "")
            plain = "content-encoding" not in response.headers
            return Document(
                call.read_body(response, budget, PDF_LIMIT),
                kind,
                int(length) if plain and length.isdigit() else None,
                asked_at,
            )

        response, document = self._send_with_retries(call, budget, open_document)
        try:
            yield document
        finally:
            response.close()

    def _json(self, call: Call, seconds: float, *, empty: bool = False) -> Answer:
        """Return a JSON answer; ``empty`` allows an answer without a body."""
        budget = self._budget(seconds)

        def read(response: httpx.Response, asked_at: datetime) -> Answer:
            bodyless = response.headers.get("content-length") == "0"
            if empty and (response.status_code == 204 or bodyless):
                return Answer(b"", response, asked_at)
            kind = wire.content_type(response)
            if kind != "application/json" and not kind.endswith("+json"):
                raise call.unusable_error(response, "not JSON")
            body = b"".join(call.read_body(response, budget, JSON_LIMIT))
            if not call.reads and not wire.is_utf8(body):
                raise call.unusable_error(response, "not UTF-8")
            return Answer(body, response, asked_at)

        for _ in range(2):
            response, answer = self._send_with_retries(call, budget, read)
            response.close()
            if wire.is_utf8(answer.body):
                return answer
        # One invalid answer may have been damaged in transit. Two mean that the service sent it so.
        return replace(answer, body=json_text.make_decodable(answer.body))

    def _call(
        self,
        method: str,
        route: str,
        path: Mapping[str, object],
        query: wire.Query | None = None,
        body: BodyArguments | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        reads: bool = False,
        accept: str = "application/json",
    ) -> Call:
        return Call(
            method=method,
            route=route,
            url=self._base + wire.fill_route(route, {**self._path_parts, **path}),
            query=wire.query_pairs(query or {}),
            accept=accept,
            reads=reads or method == "GET",
            body=body or BodyArguments(),
            headers=headers or {},
        )

    def _send_with_retries(
        self, call: Call, budget: Budget, consume: Callable[[httpx.Response, datetime], R]
    ) -> tuple[httpx.Response, R]:
        """Send until there is a usable answer, or raise the last error."""
        attempts = self._attempts if call.reads else 1
        attempt = 1
        while True:
            outcome, requested_wait = self._attempt(call, budget, consume)
            if not isinstance(outcome, errors.ServiceError):
                return outcome
            wait = requested_wait if requested_wait is not None else wire.backoff(attempt)
            is_retryable = type(outcome) in (errors.Limited, errors.Unreachable)
            if not is_retryable or attempt >= attempts or wait >= budget.left():
                # Raised outside the except block: the text of the cause may contain the URL.
                raise outcome
            self._clock.sleep(wait)
            attempt += 1

    def _attempt(
        self, call: Call, budget: Budget, consume: Callable[[httpx.Response, datetime], R]
    ) -> tuple[tuple[httpx.Response, R] | errors.ServiceError, float | None]:
        """Make one attempt; return the answer or error, and the wait in seconds before the next."""
        operation = f"{call.method} {call.route}"
        started = self._clock.monotonic()
        self._watch.began(operation)
        status: int | None = None
        wait: float | None = None
        outcome: tuple[httpx.Response, R] | errors.ServiceError
        response: httpx.Response | None = None
        try:
            asked_at, response = self._open_response(call, budget)
            status = response.status_code
            if status == 200 or (not call.reads and status in (201, 202, 204)):
                outcome = response, consume(response, asked_at)
            else:
                wait = wire.retry_after(response, self._clock.now())
                outcome = call.error_of_response(response, budget, wait)
        except errors.ServiceError as error:
            outcome = error
        except httpx.TransportError as error:
            outcome = call.transport_error(error, status)
        except BaseException:  # A task's time limit or Ctrl-C: close the connection first.
            if response is not None:
                response.close()
            raise
        if isinstance(outcome, errors.ServiceError):
            self._watch.failed(outcome)
            if response is not None:
                response.close()
        seconds = self._clock.monotonic() - started
        result = str(status or type(outcome).__name__)
        self._watch.ended(operation, result, seconds)
        log.info(
            "%s %s %s %d ms trace %s",
            call.method,
            call.route,
            result,
            seconds * 1000,
            call.trace_id,
        )
        return outcome, wait

    def _open_response(self, call: Call, budget: Budget) -> tuple[datetime, httpx.Response]:
        """Return the open response, after at most one redirect that adds or drops a slash."""
        client = self._reader if call.reads else self._writer
        url = call.url
        request_id = self._watch.request_id()
        for hop in (0, 1):
            request = client.build_request(
                call.method,
                url,
                params=call.query or None,
                **call.body,
                headers={
                    "accept": call.accept,
                    "traceparent": call.traceparent(),
                    **({"x-request-id": request_id} if request_id else {}),
                    **call.headers,
                },
            )
            # A write has no shorter read timeout: to end a slow write early only makes its outcome
            # unknown.
            read_seconds = READ_SECONDS if call.reads else budget.left()
            request.extensions["timeout"] = timeouts(budget.left(), read_seconds)
            asked_at = self._clock.now()
            response = client.send(request, auth=self._key, stream=True)
            if not 300 <= response.status_code < 400:
                return asked_at, response
            response.close()
            target = wire.slash_redirect_target(request.url, response.headers.get("location", ""))
            if hop or target is None or call.method != "GET":
                break
            url = target
        raise call.redirect_error(response)


class Calls:
    """Base class for the calls of one chapter of the interface."""

    def __init__(self, call: Exchange) -> None:
        self._call = call
