"""The house as it runs: a Celery worker and beat on Redis, on a PostgreSQL that stops and starts.

Nobody calls anything here: changes at the service arrive by themselves.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from backoffice.devtools.programs import WORKERS
from tests.sandboxes import Sandbox, SandboxFactory
from tests.sync import compare
from tests.sync.cluster import Cluster, own_cluster
from tests.sync.expected import ORDERS as ORDER_CHECKS
from tests.sync.house import House, Houses, end, wait_until

ORDERS = 3_000


@dataclass
class Living:
    sandbox: Sandbox
    house: House
    cluster: Cluster
    processes: list[subprocess.Popen[bytes]]

    def alive(self) -> bool:
        return all(process.poll() is None for process in self.processes)

    def held(self) -> int:
        return int(self.house.value("SELECT count(*) FROM orders_order"))


def started(house: House, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Beat, and a worker for each queue, as the launcher starts them."""
    celery = ("-m", "celery", "-A", "backoffice.celery")
    quiet = ("--loglevel", "WARNING")
    beat = house.start(*celery, "beat", *quiet, "--schedule", str(folder / "beat"), "--pidfile", "")
    return [beat] + [
        house.start(
            *(*celery, "worker", "--queues", queue, "--hostname", f"{queue}@%h", *quiet),
            *("--concurrency", processes, "--without-gossip", "--without-mingle"),
        )
        for queue, processes in WORKERS.items()
    ]


@pytest.fixture(scope="module")
def living(
    sandbox_factory: SandboxFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Living]:
    folder = tmp_path_factory.mktemp("living")
    sandbox = sandbox_factory(users=40, orders=ORDERS, seed=9, speed=0)
    with own_cluster() as cluster:
        house = Houses(cluster.database_url, folder).build(
            sandbox.url,
            REDIS_URL=cluster.redis_url,
            SYNC_LEASE_SECONDS="25",
        )
        processes = started(house, folder)
        try:
            yield Living(sandbox, house, cluster, processes)
        finally:
            for process in processes:
                end(process)


def test_database_stops_and_starts(living: Living) -> None:
    """P9, S14: PostgreSQL is gone in the middle of the first sync. After its return
    work goes on where it stood, with no process started anew (within ten seconds:
    `./run chaos sync`)."""
    wait_until(lambda: living.held() >= 1_000, 180, "the first thousand orders", every=0.02)
    living.cluster.stop()
    time.sleep(3)
    assert living.alive()
    living.cluster.start()
    held = living.held()
    assert 1_000 <= held < ORDERS, "it was not stopped in the middle"
    wait_until(lambda: living.held() > held, 60, "more orders")
    wait_until(
        lambda: living.house.value(
            "SELECT count(*) FROM backoffice_syncrun WHERE resource = 'orders' AND \"full\""
            " AND state = 'done'"
        ),
        60,
        "the sweep",
    )
    assert living.alive()
    assert compare.differences(living.sandbox, living.house, ORDER_CHECKS) == []


def test_change_arrives_within_a_minute(living: Living) -> None:
    """A status that changes in the sandbox is in the mirror within 60 s, by polling alone."""
    statuses = "SELECT id, updated_at FROM sandbox_order WHERE team_id = %s"
    team = "7ea00000-0000-4000-8000-000000000001"
    wait_until(
        lambda: living.house.value("SELECT count(*) FROM orders_order") >= ORDERS, 60, "all orders"
    )
    known = dict(living.sandbox.query(statuses, [team]))
    living.sandbox.control("clock", {"speed": 20_000})
    waiting: dict[tuple[object, object], float] = {}
    delays: list[float] = []
    started_at = time.monotonic()
    try:
        while True:
            now = time.monotonic()
            if now - started_at > 20:
                living.sandbox.control("clock", {"speed": 0})
            else:
                for key, moment in living.sandbox.query(statuses, [team]):
                    if known.get(key) != moment:
                        known[key] = moment
                        waiting[key, moment] = now
            held = dict(living.house.query("SELECT id, updated_at FROM orders_order"))
            for key, moment in list(waiting):
                if key in held and held[key] >= moment:
                    delays.append(time.monotonic() - waiting.pop((key, moment)))
            if not waiting and now - started_at > 20:
                break
            oldest = min(waiting.values(), default=now)
            assert now - oldest < 60, f"{len(waiting)} changes wait, the oldest over a minute"
            time.sleep(0.5)
    finally:
        living.sandbox.control("clock", {"speed": 0})
    assert len(delays) >= 20, "hardly anything happened at the service"
    assert max(delays) < 60
    assert living.alive()


def test_database_refuses_while_stopped(living: Living) -> None:
    """What the first test rests on: stopped is stopped."""
    living.cluster.stop()
    with pytest.raises(psycopg.OperationalError):
        living.held()
    living.cluster.start()
    assert living.held() >= ORDERS
