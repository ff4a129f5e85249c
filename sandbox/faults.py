"""Faults on demand: a share of the answers fails, chosen by seed and request count.

status       answered at once with one of `statuses`; nothing is carried out
status_after carried out, then answered with one of `statuses`
drop_before  the connection is closed; nothing is carried out
drop_after   carried out, then the connection is closed (also called drop)
slow         carried out after `latency_ms`; a client that has given up by then does not stop it
slow_after   carried out, answered after `latency_ms`
truncate     carried out, half of the answer is sent
html         answered by a gateway's page; nothing is carried out
redirect     answered by a redirect to elsewhere; nothing is carried out
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)

from sandbox.keyed_random import KeyedRandom
from sandbox.prepared_answers import ANSWERS
from sandbox.write_log import WRITE_LOG

CONTROL = "/_control/"
KINDS = (
    "status", "status_after", "drop", "drop_before", "drop_after", "slow", "slow_after",
    "truncate", "html", "redirect",
)  # fmt: skip
HTML = "<!doctype html><html><body><h1>502 Bad Gateway</h1></body></html>"


def dropped_response() -> StreamingHttpResponse:
    """Return a response that makes the server close the connection.

    The server has no call for that. A body that is shorter than its `Content-Length` makes it give
    up, in most cases before it has sent anything.
    """
    answer = StreamingHttpResponse(iter(()))
    answer["Content-Length"] = "100"
    answer["Connection"] = "close"
    return answer


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of requests of `methods` (empty: all) with a path that matches `paths`.

    A share `rate` of them gets one of `kinds`, and a share `drop_rate` is dropped. With `times`,
    only that many requests fail. `latency_ms` is the delay of slow ones; `retry_after` seconds are
    sent with a 429 or 503.
    """

    rate: float = 0.0
    statuses: tuple[int, ...] = (429, 500, 503)
    latency_ms: int = 500
    drop_rate: float = 0.0
    retry_after: float | None = 1
    paths: str = ""
    methods: tuple[str, ...] = ()
    times: int | None = None
    kinds: tuple[str, ...] = ("status",)
    seed: int = 1

    def matches(self, method: str, path: str) -> bool:
        return (
            bool(self.rate or self.drop_rate)
            and (not self.methods or method in self.methods)
            and re.search(self.paths, path) is not None
        )

    def choose(self, count: int) -> tuple[str, int]:
        """Return the fault of the `count`-th matching request (empty: none) and its status."""
        rng = KeyedRandom("fault", self.seed, count)
        status = rng.choice(self.statuses)
        if rng.chance(self.drop_rate):
            return "drop", status
        return (rng.choice(self.kinds), status) if rng.chance(self.rate) else ("", status)


@dataclass(slots=True)
class FaultSwitch:
    """The active faults, and how many requests matched and failed."""

    faults: Faults = field(default_factory=Faults)
    seen: int = 0
    hit: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, faults: Faults) -> None:
        with self.lock:
            self.faults, self.seen, self.hit = faults, 0, {}

    def next(self, method: str, path: str) -> tuple[str, int, Faults]:
        with self.lock:
            faults = self.faults
            if not faults.matches(method, path):
                return "", 0, faults
            if faults.times is not None and sum(self.hit.values()) >= faults.times:
                return "", 0, faults
            self.seen += 1
            kind, status = faults.choose(self.seen)
            if kind:
                self.hit[kind] = self.hit.get(kind, 0) + 1
            return kind, status, faults

    def report(self) -> dict[str, Any]:
        with self.lock:
            return {**asdict(self.faults), "seen": self.seen, "hit": dict(self.hit)}


SWITCH = FaultSwitch()


class FaultMiddleware:
    """Middleware that replaces answers by `ANSWERS`, applies the faults of `SWITCH`, and logs
    writes. It ignores the control path."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path.startswith(CONTROL):
            return self.get_response(request)
        kind, status, faults = SWITCH.next(request.method or "", request.path)
        write = WRITE_LOG.add(request, kind) if request.method != "GET" else None
        match kind:
            case "status":
                return _refusal(status, faults)
            case "html":
                return HttpResponse(HTML, status=502)
            case "redirect":
                return HttpResponseRedirect("/elsewhere" + request.get_full_path())
            case "drop_before":
                return dropped_response()
            case "slow":
                time.sleep(faults.latency_ms / 1000)
        prepared = ANSWERS.take(request)
        answer = self.get_response(request)
        if prepared is not None:
            answer = prepared.replace(answer)
        if write is not None:
            write.status = answer.status_code
        match kind:
            case "status_after":
                return _refusal(status, faults)
            case "drop" | "drop_after":
                return dropped_response()
            case "slow_after":
                time.sleep(faults.latency_ms / 1000)
            case "truncate" if isinstance(answer, HttpResponse):
                answer.content = answer.content[: len(answer.content) // 2]
                if answer.has_header("Content-Length"):
                    answer["Content-Length"] = str(len(answer.content))
        return answer


def _refusal(status: int, faults: Faults) -> JsonResponse:
    refusal = JsonResponse({"detail": "The sandbox was told to fail."}, status=status)
    if status in (429, 503) and faults.retry_after is not None:
        refusal["Retry-After"] = f"{faults.retry_after:g}"
    return refusal
