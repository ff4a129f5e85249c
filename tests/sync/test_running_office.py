"""The complete back office: Celery workers and beat, with a PostgreSQL that stops and starts.

No test calls the sync here. Changes at the service arrive by the running processes.
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
from tests.sync.back_office import BackOffice, BackOffices, end
from tests.sync.cluster import Cluster, own_cluster
from tests.sync.expected import ORDERS as ORDER_CHECKS
from tests.waiting import wait_until

ORDERS = 3_000


@dataclass
class RunningOffice:
    sandbox: Sandbox
    back_office: BackOffice
    cluster: Cluster
    processes: list[subprocess.Popen[bytes]]

    def all_processes_run(self) -> bool:
        return all(process.poll() is None for process in self.processes)

    def order_count(self) -> int:
        return int(self.back_office.value("SELECT count(*) FROM orders_order"))


def start_processes(back_office: BackOffice, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start beat and a worker for each queue, as the launcher does."""
    celery = ("-m", "celery", "-A", "backoffice.celery")
    quiet = ("--loglevel", "WARNING")
    beat = back_office.start(
        *celery, "beat", *quiet, "--schedule", str(folder / "beat"), "--pidfile", ""
    )
    return [beat] + [
        back_office.start(
            *(*celery, "worker", "--queues", queue, "--hostname", f"{queue}@%h", *quiet),
            *("--concurrency", processes, "--without-gossip", "--without-mingle"),
        )
        for queue, processes in WORKERS.items()
    ]


@pytest.fixture(scope="module")
def office(
    sandbox_factory: SandboxFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningOffice]:
    folder = tmp_path_factory.mktemp("office")
    sandbox = sandbox_factory(users=40, orders=ORDERS, seed=9, speed=0)
    with own_cluster() as cluster:
        back_office = BackOffices(cluster.database_url, folder).build(
            sandbox.url,
            REDIS_URL=cluster.redis_url,
            SYNC_LEASE_SECONDS="25",
        )
        processes = start_processes(back_office, folder)
        try:
            yield RunningOffice(sandbox, back_office, cluster, processes)
        finally:
            for process in processes:
                end(process)


def test_first_sync_continues_after_database_restart(office: RunningOffice) -> None:
    """P9, S14: PostgreSQL stops in the middle of the first sync. After its restart the sync
    continues where it stopped, and no process is restarted. (`./run chaos sync` proves that this
    happens within ten seconds.)"""
    wait_until(lambda: office.order_count() >= 1_000, 180, "the first thousand orders", every=0.02)
    office.cluster.stop()
    time.sleep(3)
    assert office.all_processes_run()
    office.cluster.start()
    held = office.order_count()
    assert 1_000 <= held < ORDERS, "the first sync was over before the database stopped"
    wait_until(lambda: office.order_count() > held, 60, "more orders")
    wait_until(
        lambda: office.back_office.value(
            "SELECT count(*) FROM sync_syncrun WHERE resource = 'orders' AND \"full\""
            " AND state = 'done'"
        ),
        60,
        "the sweep",
    )
    assert office.all_processes_run()
    assert compare.differences(office.sandbox, office.back_office, ORDER_CHECKS) == []


def test_one_poll_brings_all_changes(office: RunningOffice) -> None:
    """Statuses that change in the sandbox reach the mirror by polling alone: the first run that
    begins after a change brings it. (`./run chaos sync` measures that this takes under 60 s.)"""
    statuses = "SELECT id, updated_at FROM sandbox_order WHERE team_id = %s"
    team = "7ea00000-0000-4000-8000-000000000001"
    wait_until(lambda: office.order_count() >= ORDERS, 60, "all orders")
    known = dict(office.sandbox.query(statuses, [team]))

    def changes() -> dict[object, object]:
        now = dict(office.sandbox.query(statuses, [team]))
        return {key: moment for key, moment in now.items() if known.get(key) != moment}

    office.sandbox.control("clock", {"speed": 20_000})
    try:
        wait_until(lambda: len(changes()) >= 100, 60, "changes at the service", every=0.5)
    finally:
        office.sandbox.control("clock", {"speed": 0})
    changed = changes()
    seen_at = office.back_office.value("SELECT clock_timestamp()::text")
    wait_until(
        lambda: office.back_office.query(
            "SELECT 1 FROM sync_syncrun WHERE resource = 'orders' AND NOT \"full\""
            " AND state = 'done' AND started_at > %s",
            [seen_at],
        ),
        300,
        "a poll that began after the changes",
        every=0.5,
    )
    held = dict(office.back_office.query("SELECT id, updated_at FROM orders_order"))
    missing = [key for key, moment in changed.items() if key not in held or held[key] < moment]
    assert not missing, f"{len(missing)} of {len(changed)} changes did not come"
    assert office.all_processes_run()


def test_stopped_database_refuses_connections(office: RunningOffice) -> None:
    """The first test depends on this: a stopped database accepts no connections."""
    office.cluster.stop()
    with pytest.raises(psycopg.OperationalError):
        office.order_count()
    office.cluster.start()
    assert office.order_count() >= ORDERS
