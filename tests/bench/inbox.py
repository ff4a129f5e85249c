"""Goals 5 and 6: the cost of receiving and applying, compared with limits and with the usual way.

Receiving: the same server and senders run, in turn, the real application, one that verifies nothing
and does one durable insert, and a DRF view with the ORM and a connection per request. Applying: the
drain runs in turn with one hand-written statement per batch over the same events, and a sample runs
with one Celery task per event.
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
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")

from tests.bench import inbox_peers as peers

from django.core.management import call_command  # noqa: E402  isort: skip
from django.db import connection, transaction  # noqa: E402

from backoffice.core.service_team import remember_team  # noqa: E402
from tests.bench import events  # noqa: E402
from tests.bench.common import (  # noqa: E402
    SCALE,
    Goal,
    Growth,
    at_least,
    at_most,
    execute,
    explain,
    median_ratio,
    report,
    size_of,
)
from tests.sync.back_office import BackOffice, end  # noqa: E402
from tests.waiting import wait_until  # noqa: E402
from tests.webhooks.records import OUR_TEAM, TEAM, order  # noqa: E402
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
    execute(peers.CREATE_TABLE)
    execute(OUR_TEAM)
    remember_team([UUID(TEAM)])  # As after a first sync.
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        back_office = BackOffice(
            os.environ["DATABASE_URL"], "http://127.0.0.1:9", Path(folder) / "log"
        )
        goals, figures = _measure_receiving(back_office)
        applying_goals, applying_figures, growth = _measure_applying(back_office)
    return report("inbox", goals + applying_goals, {**figures, **applying_figures}, growth)


def _measure_receiving(back_office: BackOffice) -> tuple[list[Goal], dict[str, object]]:
    print(f"receiving: {ROUNDS} turns of {REQUESTS:,} deliveries over {CONNECTIONS} connections")
    servers = {
        "ours": ("backoffice.wsgi:web", REQUESTS),
        "plain_insert": ("tests.bench.inbox_peers:plain_insert_web", REQUESTS),
        "drf": ("tests.bench.inbox_peers:drf_web", SAMPLE),
    }
    rates: dict[str, list[float]] = {name: [] for name in servers}
    with ExitStack() as stack:
        urls = {}
        for name, (application, _) in servers.items():
            urls[name] = stack.enter_context(receiving(back_office, application, BENCH_PEER=name))
            _send_orders(urls[name], 200)
        for round_number in range(ROUNDS):
            for name, (_, count) in servers.items():
                rates[name].append(_send_orders(urls[name], count)[0])
            speeds = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in rates.items())
            print(f"  turn {round_number + 1}: {speeds} a second", flush=True)
    execute(events.CLEAR_TABLES)
    with receiving(back_office) as url:
        workers = [back_office.start("-m", "tests.webhooks.drainer") for _ in range(2)]
        try:
            wait_until(lambda: _is_draining(url), 30, "the drain", every=0.2)
            _, p99 = _send_orders(url, REQUESTS)
        finally:
            for worker in workers:
                end(worker)
    goals = [
        at_least("5 receive, beside a bare insert",
                 median_ratio(rates["ours"], rates["plain_insert"]), 0.85),
        at_least("5 receive, beside DRF and ORM", median_ratio(rates["ours"], rates["drf"]), 10,
                 "{:.1f} times"),
        at_most("5 receive while draining, p99", p99, 250, "{:.0f} ms"),
    ]  # fmt: skip
    figures: dict[str, object] = {
        f"receive_{name}_per_second": [round(rate) for rate in values]
        for name, values in rates.items()
    }
    return goals, figures


def _send_orders(url: str, count: int) -> tuple[float, float]:
    """Return deliveries a second, and the 99th percentile of responses in ms.

    All must be accepted.
    """
    attempts = [attempt(_order_message(number % 3_000)) for number in range(count)]
    started_at = time.perf_counter()
    results = send(url, attempts, CONNECTIONS)
    elapsed = time.perf_counter() - started_at
    failed = [result.status for result in results if result.status != 204]
    assert not failed, f"{len(failed)} of {count} deliveries failed: {sorted(set(failed))}"
    return count / elapsed, percentile([result.seconds for result in results], 0.99)


def _order_message(number: int) -> Message:
    record = order(number, 1 + number % 6, notes=events.NOTES)
    return message("labtest.order.updated", record, user_id=record["user_id"])


def _is_draining(url: str) -> bool:
    send(url, [attempt(_order_message(1))], 1)
    return Event.objects.filter(state="done").exists()


def _measure_applying(
    back_office: BackOffice,
) -> tuple[list[Goal], dict[str, object], list[Growth]]:
    print(f"applying: {ROUNDS} turns of {EVENTS:,} order events, 200 a batch")
    small_count = EVENTS // SCALE
    for count in (small_count, EVENTS):
        events.create_backlog(count)
    drain_rates: list[float] = []
    statement_rates: list[float] = []
    for round_number in range(ROUNDS):
        drain_rates.append(_rate(apply_events.drain, EVENTS))
        history = events.count_of("orders_orderevent")
        statement_rates.append(_rate(_apply_by_statement, EVENTS))
        assert events.count_of("orders_orderevent") == history, "the statement did not do the same"
        print(
            f"  turn {round_number + 1} drain {drain_rates[-1]:7,.0f},"
            f" statement {statement_rates[-1]:7,.0f} a second",
            flush=True,
        )
    small_rate = statistics.median(_rate(apply_events.drain, small_count) for _ in range(ROUNDS))
    events.restore_backlog(EVENTS, SAMPLE)
    task_rate = _apply_by_tasks(back_office)
    print(f"  one task per event {task_rate:,.0f} a second", flush=True)
    drain_rate = statistics.median(drain_rates)
    goals = [
        at_least(
            "6 apply, beside one statement a batch", median_ratio(drain_rates, statement_rates), 0.5
        ),
        at_least("6 apply, beside a task per event", drain_rate / task_rate, 50, "{:.0f} times"),
    ]
    events.restore_backlog(EVENTS)
    explain(goals, "6", f"applying {EVENTS:,} events", apply_events.drain)
    events.restore_backlog(EVENTS)
    apply_events.drain()
    figures: dict[str, object] = {
        "bytes_an_event": size_of("webhooks_event") // EVENTS,
        "drain_per_second": [round(rate) for rate in drain_rates],
        "statement_per_second": [round(rate) for rate in statement_rates],
        "task_per_event_per_second": round(task_rate),
    }
    execute(events.CLEAR_TABLES)
    growth = Growth(
        "apply order events", "µs an event", small_count, EVENTS, 1e6 / small_rate, 1e6 / drain_rate
    )
    return goals, figures, [growth]


def _rate(apply: Callable[[], object], count: int) -> float:
    """Return events a second."""
    events.restore_backlog(count)
    started_at = time.perf_counter()
    apply()
    seconds = time.perf_counter() - started_at
    assert events.applied_count() == count
    return count / seconds


def _apply_by_statement() -> None:
    with connection.cursor() as cursor:
        while True:
            with transaction.atomic():
                cursor.execute(peers.STATEMENT)
                if not cursor.rowcount:
                    return


def _apply_by_tasks(back_office: BackOffice) -> float:
    worker = back_office.start(
        *("-m", "celery", "-A", "tests.bench.inbox_peers", "worker", "--queues", "bench"),
        *("--concurrency", "1", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"),
    )
    done = Event.objects.filter(state="done")
    try:
        numbers = list(Event.objects.order_by("pk").values_list("pk", flat=True))
        peers.apply_one.delay(numbers[0])
        wait_until(done.exists, 60, "the first task", every=0.1)
        started_at = time.perf_counter()
        for number in numbers[1:]:
            peers.apply_one.delay(number)
        wait_until(lambda: done.count() == len(numbers), 300, "the tasks", every=0.1)
        seconds = time.perf_counter() - started_at
    finally:
        end(worker)
    return (len(numbers) - 1) / seconds


if __name__ == "__main__":
    sys.exit(main())
