"""One call to the service, from credentials to typed answer. Interface: errors and limits 1-5.

A read is tried again on 429, 5xx and connection errors while its deadline lasts. A write is sent
once, with or without an idempotency key: whether to send it again is for who recorded it. Nothing
here logs, or puts into an error's text, a path value, a query, a body, a header or a key.
"""

from __future__ import annotations

import copy
import functools
import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import httpx
import msgspec

from backoffice.service import errors, json_text, wire
from backoffice.service.call import Budget, Call, Clock, Watch
from backoffice.service.field_by_field import NULL
from backoffice.service.payload import Body, Page, Reader, Record
from backoffice.service.transport import READ_SECONDS, timeouts

log = logging.getLogger("backoffice.service")
# These log addresses with their query, and headers: a patient's name may be in either.
for _name in ("httpx", "httpcore.connection", "httpcore.http11"):
    logging.getLogger(_name).addFilter(lambda record: False)

T = TypeVar("T")
R = TypeVar("R")

JSON_LIMIT = 8 * 1024 * 1024
PDF_LIMIT = 30 * 1024 * 1024
WRITE_SECONDS = 30.0
"""How long a write may take in all, body and answer included."""
LOOKUP_SECONDS = 5.0
"""How long somebody waits in front of a page for what is looked up for it."""


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


def _list_in(body: bytes, key: str | None) -> Envelope | None:
    """The list in a body, with what no reader takes replaced where it is not decodable as it is:
    one such character or number must not cost the whole page. None where there is no list."""
    decode = _envelope(key)
    with suppress(ValueError, RecursionError):
        return decode(body)
    with suppress(ValueError, RecursionError):
        return decode(json_text.make_decodable(body))
    return None


def as_json(body: Body | Mapping[str, Any]) -> dict[str, Any]:
    """A JSON body as httpx takes it; what was not given is not sent."""
    return {"json": msgspec.to_builtins(body)}


def keyed(idempotency_key: str | None, no_cache: bool = False) -> dict[str, str]:
    """The headers that make a second request with the same key answer as the first did. With
    ``no_cache`` only a success is kept for that."""
    if idempotency_key is None:
        return {}
    plain = idempotency_key.isascii() and idempotency_key.isprintable()
    if not plain or not 1 <= len(idempotency_key.strip()) == len(idempotency_key) <= 255:
        raise ValueError("an idempotency key is 1 to 255 printable ASCII characters")
    refused = {"x-idempotency-error": "no-cache"} if no_cache else {}
    return {"x-idempotency-key": idempotency_key, **refused}


_inside = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Exchange:
    """Calls to one interface (one address, one key) over shared connections: ``reader`` keeps
    them, ``writer`` opens one for each call (see :class:`~backoffice.service.Service`)."""

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
        self.path_parts: dict[str, Any] = dict(path_parts or {})
        self._write_deadline = write_deadline
        self._watch = watch or Watch()
        self._ends = math.inf

    def within(self, seconds: float) -> Exchange:
        hurried = copy.copy(self)
        hurried._deadline = min(seconds, self._deadline)
        hurried._write_deadline = min(seconds, self._write_deadline)
        return hurried

    def until(self, moment: float) -> Exchange:
        """The same, but every call is over, or was never sent, at this moment of the clock."""
        ended = copy.copy(self)
        ended._ends = min(moment, self._ends)
        return ended

    def record(
        self,
        route: str,
        reader: Reader[T],
        *,
        query: wire.Query | None = None,
        **path: Any,
    ) -> Record[T]:
        """One record; Malformed when its typed reading fails."""
        call = self._call("GET", route, path, query)
        return self._record(call, self._json(call, self._deadline), reader)

    def look_up(
        self,
        route: str,
        reader: Reader[T],
        *,
        query: wire.Query | None = None,
        body: Mapping[str, Any] | None = None,
        **path: Any,
    ) -> Record[T]:
        """What a POST answers that only asks, and may be tried again like any read."""
        call = self._call("POST", route, path, query, body, reads=True)
        return self._record(call, self._json(call, self._looking()), reader)

    def send(
        self,
        method: str,
        route: str,
        reader: Reader[T],
        body: Mapping[str, Any] | None = None,
        *,
        inside: str | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
        **path: Any,
    ) -> Record[T]:
        """A write, sent once, and the record it answers with, under ``inside`` or as a whole.
        Uncertain when no answer came or it cannot be read: the write may have happened all the
        same. ``body`` is what httpx takes for a body, ``seconds`` how long it may take where that
        is longer than other writes."""
        call = self._call(method, route, path, None, body, headers)
        answer = self._json(call, seconds or self._write_deadline)
        if inside is not None:
            raw = self._part(call, answer, inside)
            if raw is None:
                raise call.misshapen(answer.response, f"no {inside}")
            answer = Answer(raw, answer.response, answer.asked_at)
        return self._record(call, answer, reader)

    def send_and_maybe(
        self,
        method: str,
        route: str,
        reader: Reader[T],
        body: Mapping[str, Any],
        *,
        inside: str,
        **path: Any,
    ) -> Record[T] | None:
        """As :meth:`send`, of a write that may answer null instead of the record."""
        call = self._call(method, route, path, None, body)
        answer = self._json(call, self._write_deadline)
        raw = self._part(call, answer, inside)
        if raw is None:
            return None
        return self._record(call, Answer(raw, answer.response, answer.asked_at), reader)

    def act(
        self,
        method: str,
        route: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: wire.Query | None = None,
        **path: Any,
    ) -> None:
        """A write that answers with nothing worth keeping: an empty body, or any JSON but
        ``{"success": false}``, which is a refusal."""
        call = self._call(method, route, path, query, body)
        answer = self._json(call, self._write_deadline, empty=True)
        try:
            said = msgspec.json.decode(answer.body) if answer.body else None
        except (ValueError, RecursionError):
            said = call
        if said is call:
            raise call.misshapen(answer.response, "no JSON")
        if isinstance(said, dict) and said.get("success") is False:
            told = wire.words(answer.body)
            raise call.error(errors.Refused, answer.response, message=told.message)

    def _budget(self, seconds: float) -> Budget:
        return Budget(self._clock, min(seconds, self._ends - self._clock.monotonic()))

    def _looking(self) -> float:
        return min(self._deadline, LOOKUP_SECONDS)

    def _part(self, call: Call, answer: Answer, name: str) -> bytes | None:
        """The bytes of one part of an answer; None where it is null."""
        part: msgspec.Raw | None = None
        try:
            part = _inside(answer.body).get(name)
        except (ValueError, RecursionError):
            with suppress(ValueError, RecursionError):
                part = _inside(json_text.make_decodable(answer.body)).get(name)
        if part is None:
            raise call.misshapen(answer.response, f"no {name}")
        raw = bytes(part)
        return None if raw == b"null" else raw

    def _record(self, call: Call, answer: Answer, reader: Reader[T]) -> Record[T]:
        read = reader.read(answer.body, answer.asked_at)
        if isinstance(read, Record):
            return read
        raise call.misshapen(answer.response, f"{read.reason} at {read.path}", read)

    def page(
        self,
        route: str,
        reader: Reader[T],
        key: str | None = None,
        *,
        query: wire.Query | None = None,
        body: Mapping[str, Any] | None = None,
        quick: bool = False,
        **path: Any,
    ) -> Page[T]:
        """A list, bare or under ``key``; a record that cannot be read does not spoil the page.
        With a ``body`` it is asked for by POST. ``quick``: somebody waits for it."""
        method = "GET" if body is None else "POST"
        call = self._call(method, route, path, query, body, reads=True)
        answer = self._json(call, self._looking() if quick else self._deadline)
        envelope = _list_in(answer.body, key)
        if envelope is None:
            raise call.misshapen(answer.response, "no list where one was promised")
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
        budget = self._budget(self._deadline)
        call = self._call("GET", route, path, query, accept="application/pdf")

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

    def _json(self, call: Call, seconds: float, *, empty: bool = False) -> Answer:
        """``empty``: an answer without a body will do."""
        budget = self._budget(seconds)

        def read(response: httpx.Response, asked_at: datetime) -> Answer:
            bodyless = response.headers.get("content-length") == "0"
            if empty and (response.status_code == 204 or bodyless):
                return Answer(b"", response, asked_at)
            kind = wire.content_type(response)
            if kind != "application/json" and not kind.endswith("+json"):
                raise call.unusable(response, "not JSON")
            body = b"".join(call.guarded(response, budget, JSON_LIMIT))
            if not call.reads and not wire.is_utf8(body):
                raise call.unusable(response, "not UTF-8")
            return Answer(body, response, asked_at)

        for _ in range(2):
            response, answer = self._answered(call, budget, read)
            response.close()
            if wire.is_utf8(answer.body):
                return answer
        # Once, it may be damaged on its way: what is wrong twice was sent like that.
        return replace(answer, body=json_text.make_decodable(answer.body))

    def _call(
        self,
        method: str,
        route: str,
        path: Mapping[str, Any],
        query: wire.Query | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        reads: bool = False,
        accept: str = "application/json",
    ) -> Call:
        return Call(
            method=method,
            route=route,
            url=self._base + wire.filled(route, path),
            query=wire.pairs(query or {}),
            accept=accept,
            reads=reads or method == "GET",
            body=body or {},
            headers=headers or {},
        )

    def _answered(
        self, call: Call, budget: Budget, consume: Callable[[httpx.Response, datetime], R]
    ) -> tuple[httpx.Response, R]:
        """Send until there is a usable answer, or raise the error that ended it."""
        attempts = self._attempts if call.reads else 1
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
        self, call: Call, budget: Budget, consume: Callable[[httpx.Response, datetime], R]
    ) -> tuple[tuple[httpx.Response, R] | errors.ServiceError, float | None]:
        """One attempt: the answer or the error, and the seconds the service asks us to wait."""
        operation = f"{call.method} {call.route}"
        started = self._clock.monotonic()
        self._watch.began(operation)
        status: int | None = None
        wait: float | None = None
        outcome: tuple[httpx.Response, R] | errors.ServiceError
        response: httpx.Response | None = None
        try:
            asked_at, response = self._sent(call, budget)
            status = response.status_code
            if status == 200 or (not call.reads and status in (201, 202, 204)):
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
        if isinstance(outcome, errors.ServiceError):
            self._watch.failed(outcome)
            if response is not None:
                response.close()
        seconds = self._clock.monotonic() - started
        went = str(status or type(outcome).__name__)
        self._watch.ended(operation, went, seconds)
        log.info(
            "%s %s %s %d ms trace %s", call.method, call.route, went, seconds * 1000, call.trace_id
        )
        return outcome, wait

    def _sent(self, call: Call, budget: Budget) -> tuple[datetime, httpx.Response]:
        """The open response, after at most one hop that only adds or drops a final slash."""
        client = self._reader if call.reads else self._writer
        url = call.url
        asker = self._watch.request_id()
        for hop in (0, 1):
            request = client.build_request(
                call.method,
                url,
                params=call.query or None,
                **call.body,
                headers={
                    "accept": call.accept,
                    "traceparent": call.traceparent(),
                    **({"x-request-id": asker} if asker else {}),
                    **call.headers,
                },
            )
            # Hanging up on a slow write would only make its outcome unknown.
            patience = READ_SECONDS if call.reads else budget.left()
            request.extensions["timeout"] = timeouts(budget.left(), patience)
            asked_at = self._clock.now()
            response = client.send(request, auth=self._key, stream=True)
            if not 300 <= response.status_code < 400:
                return asked_at, response
            response.close()
            target = wire.slash_only(request.url, response.headers.get("location", ""))
            if hop or target is None or call.method != "GET":
                break
            url = target
        raise call.redirected(response)


class Chapter:
    """The calls of one chapter of the interface."""

    def __init__(self, call: Exchange) -> None:
        self._call = call
