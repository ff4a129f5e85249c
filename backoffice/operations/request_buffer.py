"""The web application that the server runs: `granian --interface rsgi backoffice.wsgi:web`.

The event loop reads the complete request, with limits on time and size, before it passes the
request to a thread. So a slow client, or one that never finishes, occupies a connection but no
thread. This holds for every URL, and needs no proxy.

    event loop          reads the bodies of all connections, within the limits below
    THREADS threads     answer the complete requests, by WSGI
"""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from itertools import chain
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIEnvironment

from django.conf import settings

from labs.reports.views.upload import FORM_OVERHEAD, MAX_READ_FACTOR
from webhooks.endpoint import ENDPOINT_PATHS as DELIVERIES

logger = logging.getLogger(__name__)

THREADS: Final = 8
"""Threads of each process. `deploy/` computes the number of database connections from this."""
SECONDS: Final = 10.0
"""Seconds that any body may take to arrive, however small it is."""
BYTES_A_SECOND: Final = 50_000
"""A large body may take longer if it arrives at least at this rate."""
FORM_BYTES: Final = 2 * 1024 * 1024
"""Largest body of a form with its files. Webhook deliveries and reports have their own limits."""
SMALL_BYTES: Final = 256 * 1024
BUFFERED_BYTES: Final = 128 * 1024 * 1024
"""Limit for all bodies of one process together. Above it, only small bodies are accepted."""
PART_BYTES: Final = 64 * 1024
"""A shorter response is sent at once; a longer one is sent in parts of at least this size."""
PART_SECONDS: Final = 30.0
"""Seconds that the client may take to receive one part of a longer response."""

Headers = list[tuple[str, str]]


class Scope(Protocol):
    """The attributes of a request that granian provides."""

    http_version: str
    server: str
    client: str
    scheme: str
    method: str
    path: str
    query_string: str
    authority: str | None
    headers: RequestHeaders


class RequestHeaders(Protocol):
    """The headers of a request; names are in lower case."""

    def __contains__(self, name: str) -> bool: ...
    def get(self, name: str) -> str | None: ...
    def items(self) -> Iterable[tuple[str, str]]: ...


class ResponseStream(Protocol):
    async def send_bytes(self, data: bytes) -> None: ...


class RequestProtocol(Protocol):
    """What granian provides to read the body of a request and to answer it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    def response_str(self, status: int, headers: Headers, body: str) -> None: ...
    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...
    def response_stream(self, status: int, headers: Headers) -> ResponseStream: ...


class RequestRefused(Exception):
    """A body was refused. `status` is the status of the response."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Web:
    """An RSGI application that reads bodies and calls a WSGI application in threads."""

    def __init__(self, wsgi: Callable[..., Iterable[bytes]]) -> None:
        self.wsgi = wsgi
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="web")
        self.buffered = 0

    async def __rsgi__(self, scope: Scope, protocol: RequestProtocol) -> None:
        body = BufferedBody(self, scope)
        loop = asyncio.get_running_loop()
        try:
            content = await body.read(protocol)
            await loop.run_in_executor(self.threads, self.answer, scope, content, protocol, loop)
        except RequestRefused as refused:
            logger.warning("a body was refused: %d", refused.status)
            refuse(protocol, refused.status)
        finally:
            self.buffered -= body.size

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.threads.shutdown(wait=True)

    def answer(
        self,
        scope: Scope,
        content: bytes,
        protocol: RequestProtocol,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Call the WSGI application and send its response. Runs in a thread."""
        status, headers = 500, Headers()

        def start_response(line: str, response_headers: Headers, exc_info: object = None) -> None:
            nonlocal status, headers
            status, headers = int(line[:3]), response_headers

        try:
            parts = self.wsgi(build_environ(scope, content), start_response)
        except Exception as error:
            logger.error("a request failed: %s", type(error).__name__)
            refuse(protocol, HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        try:
            merged = _merge_parts(parts)
            first = next(merged, b"")
            if len(first) < PART_BYTES:
                protocol.response_bytes(status, headers, first)
                return
            stream = protocol.response_stream(status, headers)
            for part in chain([first], merged):
                sending = asyncio.run_coroutine_threadsafe(_send(stream, part), loop)
                sending.result(PART_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            # The client closed the connection or receives nothing: the connection ends here.
            logger.info("an answer was not taken: %s", type(error).__name__)
        finally:
            if close := getattr(parts, "close", None):
                close()


class BufferedBody:
    """The body of one request: the bytes received so far, and the time left for the rest."""

    def __init__(self, web: Web, scope: Scope) -> None:
        self.web, self.scope = web, scope
        self.size = 0
        self.began = time.monotonic()

    async def read(self, protocol: RequestProtocol) -> bytes:
        """Return the complete body. Raises RequestRefused.

        If Content-Length is too large, the body is refused before its first byte is read.
        """
        length = self.scope.headers.get("content-length")
        if length is None and "transfer-encoding" not in self.scope.headers:
            return b""
        max_bytes = max_body_bytes(self.scope.path)
        if length is not None and int(length) > max_bytes:
            raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        parts = []
        body_parts = aiter(protocol)
        while part := await self.next_part(body_parts):
            parts.append(part)
            self.size += len(part)
            self.web.buffered += len(part)
            if self.size > max_bytes:
                raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            if self.size > SMALL_BYTES and self.web.buffered > BUFFERED_BYTES:
                raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE)
        if length is not None and self.size != int(length):
            raise RequestRefused(HTTPStatus.BAD_REQUEST)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def next_part(self, body_parts: AsyncIterator[bytes]) -> bytes:
        """Return the next part of the body; empty at its end.

        Raises RequestRefused after the limit.
        """
        deadline = self.began + SECONDS + self.size / BYTES_A_SECOND
        while True:
            try:
                part = await asyncio.wait_for(anext(body_parts), deadline - time.monotonic())
            except StopAsyncIteration:
                return b""
            except TimeoutError:
                raise RequestRefused(HTTPStatus.REQUEST_TIMEOUT) from None
            if part:
                return bytes(part)


def max_body_bytes(path: str) -> int:
    """Return the largest body, in bytes, that is accepted at `path`."""
    if path in DELIVERIES:
        return int(settings.WEBHOOK_MAX_BYTES)
    if path.startswith("/reports/upload/"):
        return MAX_READ_FACTOR * int(settings.REPORT_MAX_BYTES) + FORM_OVERHEAD
    return FORM_BYTES


def build_environ(scope: Scope, content: bytes) -> WSGIEnvironment:
    """Return the WSGI environ of a request."""
    name, _, port = scope.server.rpartition(":")
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": scope.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope.path).decode("latin-1"),
        "QUERY_STRING": scope.query_string,
        "SERVER_NAME": name,
        "SERVER_PORT": port,
        "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
        "REMOTE_ADDR": scope.client.rpartition(":")[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.scheme,
        "wsgi.input": io.BytesIO(content),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if scope.authority:
        environ["HTTP_HOST"] = scope.authority
    for header, value in scope.headers.items():
        if "_" in header or header in ("content-length", "transfer-encoding"):
            continue  # A header name with _ could impersonate the same name with -.
        variable = header.upper().replace("-", "_")
        if header != "content-type":
            variable = f"HTTP_{variable}"
        if variable in environ and header != "host":
            value = f"{environ[variable]}{'; ' if header == 'cookie' else ','}{value}"
        environ[variable] = value
    if content or "content-length" in scope.headers:
        environ["CONTENT_LENGTH"] = str(len(content))
    return environ


def refuse(protocol: RequestProtocol, status: HTTPStatus) -> None:
    """Send a short plain-text response and close the connection."""
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", "30"))
    protocol.response_str(status.value, headers, f"{status.phrase}\n")


def _merge_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in parts of at least PART_BYTES; the last part may be shorter."""
    pending: list[bytes] = []
    for part in parts:
        pending.append(part)
        if sum(map(len, pending)) >= PART_BYTES:
            yield b"".join(pending)
            pending.clear()
    if pending:
        yield b"".join(pending)


async def _send(stream: ResponseStream, part: bytes) -> None:
    await stream.send_bytes(part)
