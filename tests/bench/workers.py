"""Goal 14: two workers beside one, on the inbox and on a sync, with the processors they used.

Workers are processes of their own that begin at one moment and end when nothing is left. In turns:
one, two. The sync is the whole of it, every list and all that is looked up then, into an empty
mirror, from a sandbox as far away as a real service.
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
from tests.bench.common import Goal, at_least, beside, execute, report  # noqa: E402
from tests.bench.processes import parent_of, processor_seconds  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.house import House, end  # noqa: E402
from tests.webhooks.records import OUR_TEAM  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
EVENTS = int(os.environ.get("BENCH_EVENTS", "12000"))
ORDERS = int(os.environ.get("BENCH_SYNC", "140"))
AWAY_MS = 100
GAIN = 1.6
CREW = (1, 2)
DOMAINS = ("patients", "labs", "orders", "wearables")
"""Apps with what the service tells."""


@dataclass
class Kind:
    """One kind of work: how it is laid out anew, how much of it there is, and how that is seen."""

    name: str
    words: str
    lay_out: Callable[[], None]
    count: int
    done: Callable[[], int]
    rates: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in CREW})
    cores: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in CREW})

    def goal(self) -> Goal:
        one, two = (statistics.median(self.cores[n]) for n in CREW)
        ratio = beside(self.rates[2], self.rates[1])
        name = f"14 two workers on {self.words} (cores {one:.1f}, {two:.1f})"
        return at_least(name, ratio, GAIN, "{:.2f} times")


def main() -> int:
    call_command("migrate", verbosity=0)
    execute(OUR_TEAM)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        running(users=max(5, ORDERS // 2), orders=ORDERS, seed=14) as sandbox,
    ):
        sandbox.control("faults", {"rate": 1, "kinds": ["slow"], "latency_ms": AWAY_MS})
        house = House(os.environ["DATABASE_URL"], sandbox.url, Path(name) / "log")
        events.make(EVENTS)
        # In this order: the patients that events are about do not outlive the sync.
        inbox = Kind("inbox", "the inbox", lambda: events.put(EVENTS), EVENTS, events.applied)
        synced = Kind("sync", "the whole sync", _nothing_yet, ORDERS, _synced)
        found = [_compared(house, kind) for kind in (inbox, synced)]
    figures: dict[str, object] = {
        kind.name: {
            f"{n} worker{'s' * (n > 1)}": {
                "per_second": [round(rate) for rate in kind.rates[n]],
                "cores": [round(used, 2) for used in kind.cores[n]],
            }
            for n in CREW
        }
        for kind in found
    }
    return report("workers", [kind.goal() for kind in found], figures)


def _nothing_yet() -> None:
    """An empty mirror, and every list to be walked."""
    models: list[type[Model]] = [Lookup, SyncRun, UnreadRecord]
    for app in DOMAINS:
        models += apps.get_app_config(app).get_models()
    tables = [model._meta.db_table for model in models if model._meta.managed]
    execute(f"TRUNCATE {', '.join(tables)} CASCADE")
    execute("CHECKPOINT")
    for synced_list in SYNCED_LISTS:
        if synced_list.full:
            request_run(synced_list)


def _synced() -> int:
    """Records read: on lists, and one by one."""
    left = SyncRun.objects.exclude(state="done"), Lookup.objects.exclude(error="")
    assert not any(rows.exists() for rows in (*left, UnreadRecord.objects)), "something was left"
    listed: int = SyncRun.objects.aggregate(Sum("fetched"))["fetched__sum"]
    return listed + Lookup.objects.exclude(looked_at=None).count()


def _compared(house: House, kind: Kind) -> Kind:
    for turn in range(ROUNDS):
        for crew in CREW:
            kind.lay_out()
            rate, cores = _worked(house, kind, crew)
            kind.rates[crew].append(rate)
            kind.cores[crew].append(cores)
        said = ", ".join(f"{n}: {kind.rates[n][-1]:,.0f} a second" for n in CREW)
        print(f"  {kind.words}, turn {turn + 1}: {said}", flush=True)
    return kind


def _worked(house: House, kind: Kind, crew: int) -> tuple[float, float]:
    """How much a second, and how many processors workers and PostgreSQL had on the way."""
    workers = [_started(house, kind.name) for _ in range(crew)]
    try:
        server = _server()
        used, begun = processor_seconds(server), time.perf_counter()
        for worker in workers:
            assert worker.stdin
            worker.stdin.write(b"go\n")
            worker.stdin.flush()
        told = [json.loads(_line(worker, house)) for worker in workers]
        took = time.perf_counter() - begun
        used = processor_seconds(server) - used + sum(each["cpu"] for each in told)
    finally:
        for worker in workers:
            end(worker)
    done = kind.done()
    assert done >= kind.count, f"{kind.name}: {done} of {kind.count} done"
    return done / took, used / took


def _started(house: House, kind: str) -> subprocess.Popen[bytes]:
    with house.log.open("ab") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.worker", kind],
            env=house.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert _line(worker, house) == "ready"
    return worker


def _line(worker: subprocess.Popen[bytes], house: House) -> str:
    assert worker.stdout
    said = worker.stdout.readline().decode().strip()
    assert said, f"a worker ended:\n{house.said()}"
    return said


def _server() -> int:
    """Process of the database server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return parent_of(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
