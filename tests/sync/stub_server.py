"""A small HTTP server on loopback. Tests decide its answers."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlsplit
from urllib.request import Request, urlopen


@dataclass(frozen=True)
class Reply:
    """A response. A `body` of bytes is sent as it is, anything else as JSON."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class IncomingRequest:
    """A received request. `target` is path and query as sent."""

    path: str
    query: dict[str, str]
    target: str
    headers: dict[str, str]

    def number(self, name: str, default: int) -> int:
        return int(self.query.get(name, default))


Answer = Callable[[IncomingRequest], Reply]


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """Run a server that answers every GET with `answer`, and yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            reply = answer(IncomingRequest(parts.path, query, self.path, dict(self.headers)))
            payload = reply.payload
            self.send_response_only(reply.status)
            defaults = {"content-type": "application/json", "date": formatdate(usegmt=True)}
            for name, value in {**defaults, **reply.headers}.items():
                self.send_header(name, value)
            if "content-length" not in reply.headers:
                self.send_header("content-length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # Killed clients close their connections.

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def forwarding(target: str, on_request: Callable[[IncomingRequest], None]) -> Answer:
    """Return an answer that forwards requests to `target` and calls `on_request` before each."""

    def answer(request: IncomingRequest) -> Reply:
        on_request(request)
        passed = ("x-service-api-key", "x-management-key", "accept", "x-trace-id")
        headers = {n: v for n, v in request.headers.items() if n.lower() in passed}
        try:
            with urlopen(Request(target + request.target, headers=headers), timeout=60) as response:  # noqa: S310
                return _forwarded_reply(response.status, response.read(), response.headers)
        except HTTPError as error:
            return _forwarded_reply(error.code, error.read(), error.headers)

    return answer


def _forwarded_reply(status: int, body: bytes, headers: Any) -> Reply:
    passed = ("content-type", "retry-after", "date")
    return Reply(body, status, {n.lower(): v for n, v in headers.items() if n.lower() in passed})
