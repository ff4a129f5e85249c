"""A small real receiver of webhooks: keeps what it gets, answers what it is told to."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar

from tests.sandboxes import Sandbox
from tests.waiting import wait_until

SECRET = "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA=="  # noqa: S105 - the development one
Answer = tuple[int, dict[str, str]]


@dataclass(frozen=True)
class Received:
    """One POST, as it came."""

    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.raw)
        return found

    @property
    def off_by(self) -> float:
        """Seconds between the moment it was signed and the moment it came."""
        return self.at - int(self.headers["webhook-timestamp"])

    def signed_with(self, secret: str = SECRET) -> bool:
        """Verified from scratch, with nothing of the sender's."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        said = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}."
        digest = hmac.new(key, said.encode() + self.raw, hashlib.sha256).digest()
        entries = self.headers.get("webhook-signature", "").split(" ")
        return f"v1,{base64.b64encode(digest).decode()}" in entries

    @property
    def is_true(self) -> bool:
        return self.signed_with() and abs(self.off_by) <= 300


@dataclass
class Receiver:
    """What has come so far. `answer` decides the status and headers of each POST."""

    url: str
    answer: Callable[[Received], Answer]
    got: list[Received] = field(default_factory=list)

    def wait(self, count: int, seconds: float = 60) -> list[Received]:
        """What has come once it is `count` or more."""
        self.until(lambda: len(self.got) >= count, seconds)
        return list(self.got)

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        wait_until(condition, seconds, "what the test waits for at the receiver")

    def types(self) -> list[str]:
        return [each.body["event_type"] for each in self.got]


def fine(_: Received) -> Answer:
    return 200, {}


def strict(post: Received) -> Answer:
    """As a good receiver answers: 401 for what is not truly the sender's."""
    return (204 if post.is_true else 401), {}


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def receiving(answer: Callable[[Received], Answer] = fine) -> Iterator[Receiver]:
    """A receiver on a free port for the length of a `with`."""
    receiver: Receiver

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm: ClassVar[bool] = True

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            post = Received(headers, raw, time.time())
            receiver.got.append(post)
            status, more = receiver.answer(post)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hooks/", answer)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def settled(world: Sandbox) -> dict[str, int]:
    """The figures of a sandbox's deliveries once nothing is pending."""
    deadline = time.monotonic() + 60
    while (sent := world.control("delivery-faults")["sent"])["pending"]:
        assert time.monotonic() < deadline, sent
        time.sleep(0.1)
    return dict(sent)
