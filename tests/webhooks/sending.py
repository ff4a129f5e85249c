"""A sender over real sockets: many connections, paced or as fast as answers come, each timed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from backoffice.devtools.embedded import free_port
from tests.sync.back_office import BackOffice, end
from tests.waiting import wait_until
from tests.webhooks.signed import Message

ANSWER_SECONDS = 15.0
"""The real sender gives up after this (webhooks, chapter 1)."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One attempt: which message, what was answered (0: nothing), seconds until then."""

    message_id: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One delivery as bytes on the wire."""

    message_id: str
    wire: bytes


def attempt(message: Message, path: str = "/webhooks/", **headers: str) -> Attempt:
    given = {**message.headers(), **headers}
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(message.body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return Attempt(message.id, head.encode("latin-1") + b"\r\n" + message.body)


def send(
    url: str, attempts: Iterable[Attempt], connections: int = 32, rate: float | None = None
) -> list[Sent]:
    """Deliver all; `rate` a second, or as fast as answers come. Failed ones are not repeated."""
    parts = urlsplit(url)
    return asyncio.run(_send(parts.hostname or "", parts.port or 80, attempts, connections, rate))


@dataclass
class _Line(asyncio.Protocol):
    """One kept connection: one request at a time."""

    transport: asyncio.Transport | None = None
    answer: asyncio.Future[int] | None = None
    buffer: bytearray = field(default_factory=bytearray)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, mark, rest = self.buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        length = 0
        for line in head.lower().split(b"\r\n")[1:]:
            if line.startswith(b"content-length:"):
                length = int(line[15:])
        if len(rest) >= length:
            status = int(head[9:12])
            self.buffer.clear()
            if self.answer is not None and not self.answer.done():
                self.answer.set_result(status)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(0)


async def _send(
    host: str, port: int, attempts: Iterable[Attempt], connections: int, rate: float | None
) -> list[Sent]:
    loop = asyncio.get_running_loop()
    queue = iter(attempts)
    begun = time.perf_counter()
    count = 0
    results: list[Sent] = []

    async def work() -> None:
        nonlocal count
        line = _Line()
        for one in queue:
            due = begun + count / rate if rate else 0.0
            count += 1
            if rate and (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            # Paced, a late start counts as waiting: a slow answer must not hide the next.
            started = due if rate else time.perf_counter()
            status = 0
            try:
                if line.transport is None:
                    _, line = await asyncio.wait_for(loop.create_connection(_Line, host, port), 2)
                assert line.transport is not None
                line.answer = loop.create_future()
                line.transport.write(one.wire)
                status = await asyncio.wait_for(line.answer, ANSWER_SECONDS)
            except (OSError, TimeoutError):
                line.transport = None
            results.append(Sent(one.message_id, status, time.perf_counter() - started))
        if line.transport is not None:
            line.transport.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    return results


def percentile(seconds: Sequence[float], share: float) -> float:
    """Milliseconds that `share` of them do not exceed."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextlib.contextmanager
def receiving(
    back_office: BackOffice,
    application: str = "backoffice.wsgi:web",
    workers: int = 2,
    **settings: str,
) -> Iterator[str]:
    """The web server as the launcher starts it; its address."""
    port = free_port()
    interface: tuple[str, ...] = ("--interface", "rsgi")
    if not application.endswith("web"):
        interface = ("--interface", "wsgi", "--blocking-threads", "8")
    process = back_office.start(
        *("-m", "granian", *interface, application, "--host", "127.0.0.1"),
        *("--port", str(port), "--no-ws", "--no-access-log", "--workers", str(workers)),
        *("--log-level", "warning", "--workers-kill-timeout", "5s"),
        **settings,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        bare = Attempt("", b"GET /webhooks/ HTTP/1.1\r\nhost: localhost\r\n\r\n")
        wait_until(lambda: send(url, [bare], 1)[0].status, 60, "the web server", every=0.2)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(Exception):
            process.wait(8)
        end(process)
