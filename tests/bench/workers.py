"""Goal 14: two workers beside one, on the inbox and on a sync, with the processors they used.

Workers are processes of their own that begin at one moment and end when nothing is left. In turns:
one, two. Syncs read a sandbox as far away as a real service; the inbox is where it is.
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

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from backoffice import sync  # noqa: E402
from backoffice.models import Lookup  # noqa: E402
from orders.models import Order  # noqa: E402
from orders.sync.orders import SWEEP  # noqa: E402
from tests.bench import events  # noqa: E402
from tests.bench.common import Goal, at_least, beside, execute, report  # noqa: E402
from tests.bench.processes import parent_of, processor_seconds  # noqa: E402
from tests.sandboxes import Sandbox, running  # noqa: E402
from tests.sync.house import House, end  # noqa: E402
from tests.webhooks.records import OUR_TEAM  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
EVENTS = int(os.environ.get("BENCH_EVENTS", "12000"))
ORDERS = int(os.environ.get("BENCH_SYNC", "10000"))
LOOKUPS = int(os.environ.get("BENCH_LOOKUPS", "400"))
AWAY_MS = 100
GAIN = 1.6
CREW = (1, 2)
MIRRORED = (
    "TRUNCATE orders_order, orders_ordername, orders_orderevent, orders_transaction,"
    " orders_result, orders_resultmarker, backoffice_lookup, backoffice_syncrun, backoffice_drift"
)


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
        running(users=max(20, ORDERS // 5), orders=ORDERS, seed=14) as sandbox,
    ):
        house = House(os.environ["DATABASE_URL"], sandbox.url, Path(name) / "log")
        events.make(EVENTS)
        found = [_compared(house, kind) for kind in _kinds(sandbox)]
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


def _kinds(sandbox: Sandbox) -> list[Kind]:
    def far(away: bool) -> None:
        sandbox.control("faults", method="DELETE")
        if away:
            slow = {"rate": 1, "kinds": ["slow"], "latency_ms": AWAY_MS}
            sandbox.control("faults", slow)

    def sweep() -> None:
        execute(MIRRORED)
        execute("CHECKPOINT")
        sync.request(SWEEP)
        far(True)

    def lookups() -> None:
        if not Order.objects.exists():
            far(False)
            sync.request(SWEEP)
            sync.work(SWEEP)
        execute("TRUNCATE orders_result, orders_resultmarker")
        execute("DELETE FROM backoffice_lookup")
        rows = Order.objects.filter(low_level_status="completed").order_by("pk")
        sync.mark("results", rows.values_list("pk", flat=True)[:LOOKUPS])
        execute("CHECKPOINT")
        far(True)

    swept = Kind("sweep", "one list of orders", sweep, ORDERS, Order.objects.count)
    asked = Kind("look-ups", "look-ups of results", lookups, LOOKUPS, _looked_at)
    inbox = Kind("inbox", "the inbox", lambda: events.put(EVENTS), EVENTS, events.applied)
    return [swept, asked, inbox]


def _looked_at() -> int:
    return Lookup.objects.filter(kind="results").exclude(looked_at=None).count()


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
