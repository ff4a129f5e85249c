"""Goals 5 and 6: what receiving and applying cost beside their limits and the usual way.

Receiving: the same server and the same senders, in turns, against the real application, against
one that verifies nothing and does one bare durable insert, and against a DRF view with the ORM and
a connection per request. Applying: the drain in turns with one hand-written statement per batch
over the same events, and a sample with one Celery task per event.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")

from tests.bench import inbox_peers as peers

from django.core.management import call_command  # noqa: E402  isort: skip
from django.db import connection, transaction  # noqa: E402

from tests.bench import events  # noqa: E402
from tests.bench.common import (  # noqa: E402
    SCALE,
    Goal,
    Growth,
    at_least,
    at_most,
    beside,
    execute,
    explain,
    report,
    size_of,
)
from tests.sync.house import House, end, wait_until  # noqa: E402
from tests.webhooks.records import OUR_TEAM, order  # noqa: E402
from tests.webhooks.sending import attempt, percentile, receiving, send  # noqa: E402
from tests.webhooks.signed import Message, message  # noqa: E402
from webhooks import apply_events  # noqa: E402
from webhooks.models import Event  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
CONNECTIONS = 32
REQUESTS = int(os.environ.get("BENCH_REQUESTS", "3000"))
EVENTS = int(os.environ.get("BENCH_EVENTS", "8000"))
SAMPLE = min(400, REQUESTS, EVENTS)


def main() -> int:
    call_command("migrate", verbosity=0)
    execute(peers.BARE)
    execute(OUR_TEAM)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        house = House(os.environ["DATABASE_URL"], "http://127.0.0.1:9", Path(name) / "log")
        goals, figures = _receiving(house)
        more, other, growth = _applying(house)
    return report("inbox", goals + more, {**figures, **other}, growth)


def _receiving(house: House) -> tuple[list[Goal], dict[str, object]]:
    print(f"receiving: {ROUNDS} turns of {REQUESTS:,} deliveries over {CONNECTIONS} connections")
    servers = {
        "ours": ("backoffice.wsgi:web", REQUESTS),
        "bare": ("tests.bench.inbox_peers:bare_web", REQUESTS),
        "habits": ("tests.bench.inbox_peers:habits_web", SAMPLE),
    }
    rates: dict[str, list[float]] = {name: [] for name in servers}
    with ExitStack() as stack:
        urls = {}
        for name, (application, _) in servers.items():
            urls[name] = stack.enter_context(receiving(house, application, BENCH_PEER=name))
            _burst(urls[name], 200)
        for turn in range(ROUNDS):
            for name, (_, count) in servers.items():
                rates[name].append(_burst(urls[name], count)[0])
            said = ", ".join(f"{name} {found[-1]:,.0f}" for name, found in rates.items())
            print(f"  turn {turn + 1}: {said} a second", flush=True)
    execute(events.EMPTY)
    with receiving(house) as url:
        workers = [house.start("-m", "tests.webhooks.drainer") for _ in range(2)]
        try:
            wait_until(lambda: _drained_one(url), 30, "the drain", every=0.2)
            _, tail = _burst(url, REQUESTS)
        finally:
            for worker in workers:
                end(worker)
    goals = [
        at_least("5 receive, beside a bare insert", beside(rates["ours"], rates["bare"]), 0.85),
        at_least("5 receive, beside DRF and ORM", beside(rates["ours"], rates["habits"]), 10,
                 "{:.1f} times"),
        at_most("5 receive while draining, p99", tail, 250, "{:.0f} ms"),
    ]  # fmt: skip
    figures: dict[str, object] = {
        f"receive_{name}_per_second": [round(rate) for rate in found]
        for name, found in rates.items()
    }
    return goals, figures


def _burst(url: str, count: int) -> tuple[float, float]:
    """Deliveries a second, and the 99th percentile of answers in ms; all must be taken."""
    attempts = [attempt(_order_message(number % 3_000)) for number in range(count)]
    begun = time.perf_counter()
    results = send(url, attempts, CONNECTIONS)
    took = time.perf_counter() - begun
    failed = [one.status for one in results if one.status != 204]
    assert not failed, f"{len(failed)} of {count} deliveries failed: {sorted(set(failed))}"
    return count / took, percentile([one.seconds for one in results], 0.99)


def _order_message(number: int) -> Message:
    record = order(number, 1 + number % 6, notes=events.NOTES)
    return message("labtest.order.updated", record, user_id=record["user_id"])


def _drained_one(url: str) -> bool:
    send(url, [attempt(_order_message(1))], 1)
    return Event.objects.filter(state="done").exists()


def _applying(house: House) -> tuple[list[Goal], dict[str, object], list[Growth]]:
    print(f"applying: {ROUNDS} turns of {EVENTS:,} order events, 200 a batch")
    few = EVENTS // SCALE
    for count in (few, EVENTS):
        events.make(count)
    drain: list[float] = []
    statement: list[float] = []
    for turn in range(ROUNDS):
        drain.append(_rate(apply_events.drain, EVENTS))
        history = events.count_of("orders_orderevent")
        statement.append(_rate(_by_statement, EVENTS))
        assert events.count_of("orders_orderevent") == history, "the statement did not do the same"
        print(
            f"  turn {turn + 1} drain {drain[-1]:7,.0f}, statement {statement[-1]:7,.0f} a second",
            flush=True,
        )
    of_few = statistics.median(_rate(apply_events.drain, few) for _ in range(ROUNDS))
    events.put(EVENTS, SAMPLE)
    tasks = _by_tasks(house)
    print(f"  one task per event {tasks:,.0f} a second", flush=True)
    ours = statistics.median(drain)
    goals = [
        at_least("6 apply, beside one statement a batch", beside(drain, statement), 0.5),
        at_least("6 apply, beside a task per event", ours / tasks, 50, "{:.0f} times"),
    ]
    events.put(EVENTS)
    explain(goals, "6", f"applying {EVENTS:,} events", apply_events.drain)
    events.put(EVENTS)
    apply_events.drain()
    figures: dict[str, object] = {
        "bytes_an_event": size_of("webhooks_event") // EVENTS,
        "drain_per_second": [round(rate) for rate in drain],
        "statement_per_second": [round(rate) for rate in statement],
        "task_per_event_per_second": round(tasks),
    }
    execute(events.EMPTY)
    growth = Growth("apply order events", "µs an event", few, EVENTS, 1e6 / of_few, 1e6 / ours)
    return goals, figures, [growth]


def _rate(apply: Callable[[], object], count: int) -> float:
    """Events a second."""
    events.put(count)
    begun = time.perf_counter()
    apply()
    took = time.perf_counter() - begun
    assert events.applied() == count
    return count / took


def _by_statement() -> None:
    with connection.cursor() as cursor:
        while True:
            with transaction.atomic():
                cursor.execute(peers.STATEMENT)
                if not cursor.rowcount:
                    return


def _by_tasks(house: House) -> float:
    worker = house.start(
        *("-m", "celery", "-A", "tests.bench.inbox_peers", "worker", "--queues", "bench"),
        *("--concurrency", "1", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"),
    )
    done = Event.objects.filter(state="done")
    try:
        numbers = list(Event.objects.order_by("pk").values_list("pk", flat=True))
        peers.apply_one.delay(numbers[0])
        wait_until(done.exists, 60, "the first task", every=0.1)
        begun = time.perf_counter()
        for number in numbers[1:]:
            peers.apply_one.delay(number)
        wait_until(lambda: done.count() == len(numbers), 300, "the tasks", every=0.1)
        took = time.perf_counter() - begun
    finally:
        end(worker)
    return (len(numbers) - 1) / took


if __name__ == "__main__":
    sys.exit(main())
