"""Goal 14: two workers compared with one, on the inbox and on a sync, with the processors they
used.

Workers are separate processes that start at the same time and end when no work is left. Runs with
one and with two workers alternate. The sync is a full one, with every list and all look-ups that
follow, into an empty mirror, from a sandbox with the latency of a real service.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from django.apps import apps  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models import Model, Sum  # noqa: E402

from backoffice.management.commands.sync import SYNCED_LISTS  # noqa: E402
from backoffice.mirror.models import UnreadRecord  # noqa: E402
from backoffice.sync.models import (  # noqa: E402
    Lookup,  # noqa: E402
    SyncRun,  # noqa: E402
)
from backoffice.sync.runs import request_run  # noqa: E402
from tests.bench import events  # noqa: E402
from tests.bench.common import Goal, at_least, execute, median_ratio, report  # noqa: E402
from tests.bench.processes import parent_of, processor_seconds  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.back_office import BackOffice, end  # noqa: E402
from tests.webhooks.records import OUR_TEAM  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
EVENTS = int(os.environ.get("BENCH_EVENTS", "12000"))
ORDERS = int(os.environ.get("BENCH_SYNC", "140"))
LATENCY_MS = 100
MIN_GAIN = 1.6
WORKER_COUNTS = (1, 2)
MIRRORED_APPS = ("patients", "labs", "orders", "wearables")
"""Apps with records of the service."""


@dataclass
class Workload:
    """One kind of work: how it is prepared, how much there is, and how completed work is
    counted."""

    name: str
    label: str
    prepare: Callable[[], None]
    count: int
    done: Callable[[], int]
    rates: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in WORKER_COUNTS})
    cores: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in WORKER_COUNTS})

    def goal(self) -> Goal:
        one, two = (statistics.median(self.cores[n]) for n in WORKER_COUNTS)
        ratio = median_ratio(self.rates[2], self.rates[1])
        name = f"14 two workers on {self.label} (cores {one:.1f}, {two:.1f})"
        return at_least(name, ratio, MIN_GAIN, "{:.2f} times")


def main() -> int:
    call_command("migrate", verbosity=0)
    execute(OUR_TEAM)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        running(users=max(5, ORDERS // 2), orders=ORDERS, seed=14) as sandbox,
    ):
        sandbox.control("faults", {"rate": 1, "kinds": ["slow"], "latency_ms": LATENCY_MS})
        back_office = BackOffice(os.environ["DATABASE_URL"], sandbox.url, Path(name) / "log")
        events.create_backlog(EVENTS)
        # The order matters: the sync deletes the patients that events are about.
        inbox = Workload(
            "inbox",
            "the inbox",
            lambda: events.restore_backlog(EVENTS),
            EVENTS,
            events.applied_count,
        )
        synced = Workload("sync", "the whole sync", _reset_mirror, ORDERS, _synced_count)
        measured = [_measure(back_office, workload) for workload in (inbox, synced)]
    figures: dict[str, object] = {
        workload.name: {
            f"{n} worker{'s' * (n > 1)}": {
                "per_second": [round(rate) for rate in workload.rates[n]],
                "cores": [round(used, 2) for used in workload.cores[n]],
            }
            for n in WORKER_COUNTS
        }
        for workload in measured
    }
    return report("workers", [workload.goal() for workload in measured], figures)


def _reset_mirror() -> None:
    """Empty the mirror and request a sync of every list."""
    models: list[type[Model]] = [Lookup, SyncRun, UnreadRecord]
    for app in MIRRORED_APPS:
        models += apps.get_app_config(app).get_models()
    tables = [model._meta.db_table for model in models if model._meta.managed]
    execute(f"TRUNCATE {', '.join(tables)} CASCADE")
    execute("CHECKPOINT")
    for synced_list in SYNCED_LISTS:
        if synced_list.full:
            request_run(synced_list)


def _synced_count() -> int:
    """Return the number of records read, in lists and one by one."""
    unfinished = SyncRun.objects.exclude(state="done"), Lookup.objects.exclude(error="")
    assert not any(rows.exists() for rows in (*unfinished, UnreadRecord.objects)), (
        "something was left"
    )
    listed: int = SyncRun.objects.aggregate(Sum("fetched"))["fetched__sum"]
    return listed + Lookup.objects.exclude(looked_at=None).count()


def _measure(back_office: BackOffice, workload: Workload) -> Workload:
    for round_number in range(ROUNDS):
        for worker_count in WORKER_COUNTS:
            workload.prepare()
            rate, cores = _run_workers(back_office, workload, worker_count)
            workload.rates[worker_count].append(rate)
            workload.cores[worker_count].append(cores)
        rates_text = ", ".join(f"{n}: {workload.rates[n][-1]:,.0f} a second" for n in WORKER_COUNTS)
        print(f"  {workload.label}, turn {round_number + 1}: {rates_text}", flush=True)
    return workload


def _run_workers(
    back_office: BackOffice, workload: Workload, worker_count: int
) -> tuple[float, float]:
    """Return the work done per second, and the processors that workers and PostgreSQL used."""
    workers = [_start_worker(back_office, workload.name) for _ in range(worker_count)]
    try:
        server = _server_pid()
        used, started_at = processor_seconds(server), time.perf_counter()
        for worker in workers:
            assert worker.stdin
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        reports = [json.loads(_read_line(worker, back_office)) for worker in workers]
        seconds = time.perf_counter() - started_at
        used = processor_seconds(server) - used + sum(report["cpu"] for report in reports)
    finally:
        for worker in workers:
            end(worker)
    done = workload.done()
    assert done >= workload.count, f"{workload.name}: {done} of {workload.count} done"
    return done / seconds, used / seconds


def _start_worker(back_office: BackOffice, kind: str) -> subprocess.Popen[bytes]:
    with back_office.log.open("ab") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.worker", kind],
            env=back_office.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert _read_line(worker, back_office) == "ready"
    return worker


def _read_line(worker: subprocess.Popen[bytes], back_office: BackOffice) -> str:
    assert worker.stdout
    line = worker.stdout.readline().decode().strip()
    assert line, f"a worker ended:\n{back_office.said()}"
    return line


def _server_pid() -> int:
    """Return the process ID of the database server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return parent_of(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
