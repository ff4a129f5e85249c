"""A small real HTTP server on loopback that answers from a script, faults included."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler"], None]


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = field(default=b"", repr=False)
    size: int = 0


@dataclass
class Faulty:
    """``script``: answers still to give, in order; the last one repeats for ever. ``forgets``:
    bodies are counted only, for those that are too large to keep."""

    url: str = ""
    script: deque[Answer] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    forgets: bool = False

    def then(self, *answers: Answer) -> Faulty:
        self.script.extend(answers)
        return self

    def next(self) -> Answer:
        return self.script.popleft() if len(self.script) > 1 else self.script[0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        here = self.server.here
        headers = {name.lower(): value for name, value in self.headers.items()}
        left = size = int(headers.get("content-length", 0))
        body = b""
        while left and (piece := self.rfile.read(min(left, 65536))):
            body += b"" if here.forgets else piece
            left -= len(piece)
        here.requests.append(Request(self.command, self.path, headers, body, size - left))
        try:
            here.next()(self)
        except OSError:  # the client hung up, as it should on some of these
            self.close_connection = True

    # the names that the base class calls
    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class Server(ThreadingHTTPServer):
    here: Faulty
    daemon_threads = True
    block_on_close = False

    def fresh(self) -> Faulty:
        """A new script and record, nothing left of the one before."""
        self.here = Faulty(f"http://127.0.0.1:{self.server_address[1]}")
        return self.here

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients of this server hang up rudely, as they should


@contextmanager
def serving() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.fresh()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def answer(
    body: bytes, status: int = 200, kind: str = "application/json", **headers: str
) -> Answer:
    def give(handler: Handler) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.head(status, {"Content-Type": kind, "Content-Length": str(len(body))} | named)
        handler.wfile.write(body)

    return give


def says(value: Any, status: int = 200, **headers: str) -> Answer:
    return answer(json.dumps(value).encode(), status, **headers)


def cut_short(body: bytes) -> Answer:
    """Promises the whole body, sends half and hangs up."""

    def give(handler: Handler) -> None:
        handler.head(200, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        handler.wfile.write(body[: len(body) // 2])
        handler.close_connection = True

    return give


def drip(seconds_between: float, before_headers: bool = False) -> Answer:
    """One byte at a time, for ever: of the body, or already of the headers."""

    def give(handler: Handler) -> None:
        if before_headers:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        else:
            handler.head(200, {"Content-Type": "application/json", "Content-Length": "1000000"})
        handler.close_connection = True
        while True:
            handler.wfile.write(b" ")
            time.sleep(seconds_between)

    return give


def silence(seconds: float) -> Answer:
    def give(handler: Handler) -> None:
        time.sleep(seconds)
        handler.close_connection = True

    return give


def reset(handler: Handler) -> None:
    """A TCP reset instead of an answer."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    handler.connection.close()


def endless(kind: str) -> Answer:
    """A body without an end, as fast as it is taken."""

    def give(handler: Handler) -> None:
        handler.head(200, {"Content-Type": kind, "Connection": "close"})
        handler.close_connection = True
        piece = b" " * 65536
        while True:
            handler.wfile.write(piece)

    return give


def bomb(megabytes: int) -> Answer:
    """A small gzip body that unpacks to much."""
    body = gzip.compress(b" " * (megabytes * 1024 * 1024), 9)
    return answer(body, Content_Encoding="gzip")


def zipped(value: Any) -> Answer:
    return answer(gzip.compress(json.dumps(value).encode()), Content_Encoding="gzip")
