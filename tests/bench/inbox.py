"""Goals 5 and 6: what receiving and applying cost beside their limits and the usual way.

Receiving: the same server and the same senders, in turns, against the real application, against
one that verifies nothing and does one bare durable insert, and against a DRF view with the ORM and
a connection per request. Applying: the drain in turns with one hand-written statement per batch
over the same events, and a sample with one Celery task per event.
"""

from __future__ import annotations

import os
import random
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

from backoffice.sealing import Blob  # noqa: E402
from tests.bench.common import Goal, report  # noqa: E402
from tests.sync.house import House, end, wait_until  # noqa: E402
from tests.webhooks.records import OUR_TEAM, order  # noqa: E402
from tests.webhooks.rows import event  # noqa: E402
from tests.webhooks.sending import attempt, percentile, receiving, send  # noqa: E402
from tests.webhooks.signed import Message, message  # noqa: E402
from webhooks import applying  # noqa: E402
from webhooks.models import Event  # noqa: E402

ROUNDS = 7
CONNECTIONS = 32
REQUESTS = int(os.environ.get("BENCH_REQUESTS", "3000"))
EVENTS = int(os.environ.get("BENCH_EVENTS", "8000"))
SAMPLE = 400
NOTES = "n" * 900
"""Makes an order event 2.2 KB, as they are."""
EMPTY = (
    "TRUNCATE webhooks_event, orders_order, orders_ordername, orders_orderevent,"
    " orders_transaction, backoffice_lookup"
)


def main() -> int:
    call_command("migrate", verbosity=0)
    _execute(peers.BARE)
    _execute(OUR_TEAM)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        house = House(os.environ["DATABASE_URL"], "http://127.0.0.1:9", Path(name) / "log")
        goals, figures = _receiving(house)
        more, other = _applying(house)
    return report("inbox", goals + more, {**figures, **other})


def _receiving(house: House) -> tuple[list[Goal], dict[str, object]]:
    print(f"receiving: {ROUNDS} turns of {REQUESTS:,} deliveries over {CONNECTIONS} connections")
    servers = {
        "ours": ("backoffice.wsgi:application", REQUESTS),
        "bare": ("tests.bench.inbox_peers:bare", REQUESTS),
        "habits": ("tests.bench.inbox_peers:habits", SAMPLE),
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
    beside = {name: _share(rates["ours"], rates[name]) for name in servers}
    _execute(EMPTY)
    with receiving(house) as url:
        workers = [house.start("-m", "tests.webhooks.drainer") for _ in range(2)]
        try:
            wait_until(lambda: _drained_one(url), 30, "the drain", every=0.2)
            _, tail = _burst(url, REQUESTS)
        finally:
            for worker in workers:
                end(worker)
    goals = [
        Goal("5 receive, beside a bare insert", f"{beside['bare']:.2f}", ">= 0.85",
             beside["bare"] >= 0.85),
        Goal("5 receive, beside DRF and ORM", f"{beside['habits']:.1f} times", ">= 10 times",
             beside["habits"] >= 10),
        Goal("5 receive while draining, p99", f"{tail:.0f} ms", "< 250 ms", tail < 250),
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
    record = order(number, 1 + number % 6, notes=NOTES)
    return message("labtest.order.updated", record, user_id=record["user_id"])


def _drained_one(url: str) -> bool:
    send(url, [attempt(_order_message(1))], 1)
    return Event.objects.filter(state="done").exists()


def _applying(house: House) -> tuple[list[Goal], dict[str, object]]:
    print(f"applying: {ROUNDS} turns of {EVENTS:,} order events, 200 a batch")
    drain: list[float] = []
    statement: list[float] = []
    for turn in range(ROUNDS):
        drain.append(_timed(applying.drain, EVENTS, turn))
        history = _count("orders_orderevent")
        statement.append(_timed(_by_statement, EVENTS, turn))
        assert _count("orders_orderevent") == history, "the statement did not do the same"
        print(
            f"  turn {turn + 1} drain {drain[-1]:7,.0f}, statement {statement[-1]:7,.0f} a second",
            flush=True,
        )
    _fill(SAMPLE, 0)
    tasks = _by_tasks(house)
    print(f"  one task per event {tasks:,.0f} a second", flush=True)
    _execute(EMPTY)
    ours, share = statistics.median(drain), _share(drain, statement)
    goals = [
        Goal("6 apply, beside one statement a batch", f"{share:.2f}", ">= 0.5", share >= 0.5),
        Goal("6 apply, beside a task per event", f"{ours / tasks:.0f} times", ">= 50 times",
             ours >= 50 * tasks),
    ]  # fmt: skip
    figures: dict[str, object] = {
        "drain_per_second": [round(rate) for rate in drain],
        "statement_per_second": [round(rate) for rate in statement],
        "task_per_event_per_second": round(tasks),
    }
    return goals, figures


def _share(ours: list[float], others: list[float]) -> float:
    """Of neighbouring turns, so that what else the machine does weighs on both."""
    return statistics.median(mine / other for mine, other in zip(ours, others, strict=True))


def _timed(apply: Callable[[], object], count: int, seed: int) -> float:
    _fill(count, seed)
    begun = time.perf_counter()
    apply()
    took = time.perf_counter() - begun
    assert Event.objects.filter(state="done").count() == count
    return count / took


def _fill(count: int, seed: int) -> None:
    """Four versions of each order, shuffled, in an empty database."""
    _execute(EMPTY)
    pairs = [(number, steps) for number in range(count // 4) for steps in (2, 3, 5, 6)]
    random.Random(seed).shuffle(pairs)
    for start in range(0, len(pairs), 4_000):
        events = [
            event("labtest.order.updated", order(number, steps, notes=NOTES))
            for number, steps in pairs[start : start + 4_000]
        ]
        for one in events:
            # As it is received: bodies are sealed some minutes later. The column takes it as it is.
            one.body = Blob(one.body or b"")
        Event.objects.bulk_create(events)
    _execute("ANALYZE webhooks_event")
    _execute("CHECKPOINT")


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


def _count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT count(*) FROM "{table}"')
        return int(cursor.fetchone()[0])


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


if __name__ == "__main__":
    sys.exit(main())
