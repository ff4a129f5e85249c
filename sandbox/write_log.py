"""A log of calls other than GET, with their status but without their bodies."""

import threading
from collections import deque
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

MAX_WRITES = 20_000


@dataclass(slots=True)
class Write:
    """A call. `status` is the status of its answer; None if it was not carried out, or not yet.
    `fault` is the fault that was applied to it."""

    number: int
    at: datetime
    method: str
    path: str
    key: str | None
    fault: str
    status: int | None = None


@dataclass(slots=True)
class WriteLog:
    """The latest calls since the sandbox started, oldest first."""

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
        """Return the calls after this number."""
        with self.lock:
            return [asdict(write) for write in self.writes if write.number > number]


WRITE_LOG = WriteLog()
