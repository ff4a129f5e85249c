"""Histograms of the duration of requests, tasks and service calls, for `/metrics`.

A process keeps its counts in memory. A thread flushes them to Redis every few seconds, so no
measured code waits for Redis. Redis holds the sums over all processes: scrape one web process, not
each. Counts that a killed process had not flushed, or that Redis loses, are lost.

Labels are names from our code, never an id, an address or text that somebody typed.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import redis
from celery.signals import task_postrun, task_prerun, worker_process_shutdown
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from backoffice.core.request_ids import METHODS, route_name

logger = logging.getLogger(__name__)

KEY: Final = "bo:counters"
FLUSH_SECONDS: Final = 5.0
"""Seconds between two flushes of a process."""
REDIS_TIMEOUT_SECONDS: Final = 0.3
"""Longest wait for Redis, in seconds."""
FAST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
SLOW_BUCKETS: Final = (0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SEPARATOR: Final = "\x1f"


@dataclass(frozen=True, slots=True)
class Histogram:
    """Definition of a histogram of seconds, by labels."""

    name: str
    help: str
    labels: tuple[str, ...]
    bounds: tuple[float, ...]


REQUESTS: Final = Histogram(
    "backoffice_request_seconds",
    "Requests answered, until the answer began",
    ("route", "method", "status"),
    FAST_BUCKETS,
)
CALLS: Final = Histogram(
    "backoffice_service_call_seconds",
    "Calls of the service, each attempt, until its answer was read",
    ("operation", "outcome"),
    SLOW_BUCKETS,
)
TASKS: Final = Histogram(
    "backoffice_task_seconds", "Tasks of the workers", ("task", "outcome"), SLOW_BUCKETS
)
HISTOGRAMS: Final = {family.name: family for family in (REQUESTS, CALLS, TASKS)}

Key = tuple[str, ...]
"""Name of a histogram, then its labels."""


class Counters:
    """Counts of this process that are not in Redis yet.

    By key: the sum of seconds, then the count of each bucket.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Key, list[float]] = {}
        self._pid = 0

    def add(self, family: Histogram, labels: tuple[str, ...], seconds: float) -> None:
        key = (family.name, *labels)
        with self._lock:
            counts = self._counts.get(key)
            if counts is None:
                counts = self._counts[key] = [0.0] * (len(family.bounds) + 2)
            counts[0] += seconds
            counts[1 + bisect_left(family.bounds, seconds)] += 1
            if self._pid != os.getpid():
                self._pid = os.getpid()
                threading.Thread(target=self._flush_forever, name="counters", daemon=True).start()

    def flush(self) -> None:
        """Write the counts to Redis; keep them for the next flush when that fails."""
        with self._lock:
            counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            with _redis().pipeline(transaction=True) as pipeline:
                for key, (seconds, *buckets) in counts.items():
                    name = _SEPARATOR.join(key)
                    pipeline.hincrbyfloat(KEY, f"{name}{_SEPARATOR}sum", seconds)
                    for place, count in enumerate(buckets):
                        if count:
                            pipeline.hincrby(KEY, f"{name}{_SEPARATOR}{place}", int(count))
                pipeline.execute()
        except redis.RedisError as error:
            logger.debug("duration metrics could not be written to Redis: %s", type(error).__name__)
            self._restore(counts)

    def reset_after_fork(self) -> None:
        """Clear the counts in a forked process: the parent flushes what it counted before."""
        self._lock = threading.Lock()
        self._counts = {}

    def _restore(self, counts: dict[Key, list[float]]) -> None:
        with self._lock:
            for key, values in counts.items():
                newer = self._counts.get(key, [0.0] * len(values))
                self._counts[key] = [a + b for a, b in zip(newer, values, strict=True)]

    def _flush_forever(self) -> None:
        while True:
            time.sleep(FLUSH_SECONDS)
            self.flush()


_counters: Final = Counters()
os.register_at_fork(after_in_child=_counters.reset_after_fork)
atexit.register(_counters.flush)
flush: Final = _counters.flush


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """Values of one histogram; `counts` are cumulative, one for each upper bound."""

    family: Histogram
    labels: tuple[str, ...]
    counts: list[int]
    seconds: float


def read_series() -> Iterator[HistogramSeries]:
    """Yield the histograms that all processes have flushed. Raises RedisError."""
    counts: dict[Key, list[int]] = {}
    sums: dict[Key, float] = {}
    # redis-py types the answer for its sync and async clients at once.
    stored: Any = _redis().hgetall(KEY)
    for field, value in stored.items():
        *key, part = field.decode().split(_SEPARATOR)
        family = HISTOGRAMS.get(key[0])
        if family is None or len(key) != 1 + len(family.labels):
            continue  # written by another release
        if part == "sum":
            sums[tuple(key)] = float(value)
        elif int(part) <= len(family.bounds):
            counts.setdefault(tuple(key), [0] * (len(family.bounds) + 1))[int(part)] = int(value)
    for names, buckets in sorted(counts.items()):
        cumulative = [sum(buckets[: place + 1]) for place in range(len(buckets))]
        yield HistogramSeries(HISTOGRAMS[names[0]], names[1:], cumulative, sums.get(names, 0.0))


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=REDIS_TIMEOUT_SECONDS,
        socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
    )


# Recording


def measure_requests(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware that records the duration of every request by the name of its route."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        status = 500
        try:
            response = get_response(request)
            status = response.status_code
            return response
        finally:
            record_request(
                route_name(request), request.method or "", status, time.perf_counter() - began
            )

    return answer


def record_request(route: str, method: str, status: int, seconds: float) -> None:
    label = method if method in METHODS else "other"
    _counters.add(REQUESTS, (route, label, f"{status // 100}xx"), seconds)


def record_call(operation: str, outcome: str, seconds: float) -> None:
    _counters.add(CALLS, (operation, outcome), seconds)


@task_prerun.connect
def _start_timer(task: Any, **_: Any) -> None:
    task.request.began = time.perf_counter()


@task_postrun.connect
def _record_task(task: Any, state: str | None = None, **_: Any) -> None:
    began = getattr(task.request, "began", None)
    if began is not None:
        _counters.add(TASKS, (task.name, (state or "lost").lower()), time.perf_counter() - began)


@worker_process_shutdown.connect
def _flush_at_shutdown(**_: Any) -> None:
    flush()
