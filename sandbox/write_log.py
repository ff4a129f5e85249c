"""The log of calls that may change something: who waits for what is not in it, only that they
came and how they ended. No bodies."""

import threading
from collections import deque
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

MAX_WRITES = 20_000


@dataclass(slots=True)
class Write:
    """A call. `status` is what carrying it out answered; None: not carried out, or not yet.
    `fault`: what was told to go wrong with it."""

    number: int
    at: datetime
    method: str
    path: str
    key: str | None
    fault: str
    status: int | None = None


@dataclass(slots=True)
class WriteLog:
    """The latest calls since the sandbox has started, oldest first."""

    writes: deque[Write] = field(default_factory=lambda: deque(maxlen=MAX_WRITES))
    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, request: HttpRequest, fault: str) -> Write:
        with self.lock:
            self.count += 1
            write = Write(
                self.count,
                datetime.now(UTC),
                request.method or "",
                request.path,
                request.headers.get("X-Idempotency-Key"),
                fault,
            )
            self.writes.append(write)
            return write

    def since(self, number: int) -> list[dict[str, Any]]:
        """The calls after this one."""
        with self.lock:
            return [asdict(write) for write in self.writes if write.number > number]


WRITE_LOG = WriteLog()
