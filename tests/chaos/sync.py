"""`./run chaos sync`: the long proofs of the sync (reliability P9, P18 and the kills of S15, S16).

The run prints a table, writes `var/bench/chaos-sync.json`, and exits non-zero when a proof fails.
`SEEDS` (40) sets the number of seeds of the paging drift.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

# Needed to decrypt columns of the mirror.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")

from tests.bench.common import Goal
from tests.chaos.common import run
from tests.sandboxes import Sandbox, running
from tests.sync import compare
from tests.sync.back_office import SYNC, BackOffice, BackOffices, end
from tests.sync.cluster import own_cluster
from tests.sync.drift import find_undetected_deletions, sync_during_changes
from tests.sync.expected import ORDERS as ORDER_CHECKS
from tests.sync.test_running_office import start_processes
from tests.waiting import wait_until

TEAM = "7ea00000-0000-4000-8000-000000000001"
OUTAGE_SECONDS = 30
KILLS = 12


def paging_drift(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P18: 20 changes and 3 inserts before each page, with many seeds, and deleted users."""
    seeds = int(os.environ.get("SEEDS", "40"))
    skipped = remaining = changed = placed = pages = 0
    with running(700, 900, 17) as sandbox:
        back_office = back_offices.build(sandbox.url)
        for seed in range(1, seeds + 1):
            result = sync_during_changes(sandbox, back_office, seed)
            skipped, remaining = skipped + len(result.skipped), remaining + len(result.remaining)
            pages, changed, placed = (
                pages + result.pages,
                changed + result.changed,
                placed + result.inserted,
            )
            print(f"  seed {seed}: {result.pages} pages, {len(result.skipped)} skipped", flush=True)
        back_office.sync("users")
        found = sum(
            len(find_undetected_deletions(sandbox, back_office, 8, seed)) for seed in range(1, 4)
        )
    extent = f"{seeds} seeds, {pages} pages, {changed} moved, {placed} placed"
    return [
        Goal(f"P18 unchanged rows skipped ({extent})", str(skipped), "0", skipped == 0),
        Goal("P18 differences after the next run", str(remaining), "0", remaining == 0),
        Goal("P18 deleted users not found by one sweep", str(found), "0", found == 0),
    ]


def database_outage(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P9: PostgreSQL stops for 30 s during a sync by worker and beat. Then its power is cut."""
    goals = []
    with own_cluster() as cluster, running(60, 6_000, 9) as sandbox:
        back_office = BackOffices(cluster.database_url, folder).build(
            sandbox.url, REDIS_URL=cluster.redis_url, SYNC_LEASE_SECONDS="25"
        )
        processes = start_processes(back_office, folder)

        def order_count() -> int:
            return int(back_office.value("SELECT count(*) FROM orders_order"))

        try:
            for name, signal_number, seconds, share in (
                ("stopped 30 s", signal.SIGINT, OUTAGE_SECONDS, 1_000),
                ("power cut", signal.SIGQUIT, 2, 3_000),
            ):
                wait_until(lambda share=share: order_count() >= share, 90, "orders", every=0.02)  # type: ignore[misc]
                cluster.stop(signal_number)
                time.sleep(seconds)
                cluster.start()
                restarted, before = time.monotonic(), order_count()
                print(f"  {name} at {before} orders", flush=True)
                wait_until(
                    lambda before=before: order_count() > before or order_count() >= 6_000,  # type: ignore[misc]
                    60,
                    "progress",
                )
                seconds_to_progress = time.monotonic() - restarted
                goals.append(
                    Goal(
                        f"P9 work goes on after PostgreSQL was {name}",
                        f"{seconds_to_progress:.1f} s",
                        "10 s",
                        seconds_to_progress <= 10,
                    )
                )
            sweep = (
                "SELECT count(*) FROM sync_syncrun"
                " WHERE \"full\" AND resource = 'orders' AND state = 'done'"
            )
            wait_until(lambda: back_office.value(sweep), 120, "the sweep")
            different = len(compare.differences(sandbox, back_office, ORDER_CHECKS))
            dead = sum(process.poll() is not None for process in processes)
            changed = sandbox.control("change", {"orders": 50, "seed": 5})["order_ids"]
            arrived = wait_until(
                lambda: not compare.differences(sandbox, back_office, ORDER_CHECKS[:1]),
                90,
                "changes",
                0.5,
            )
        finally:
            for process in processes:
                end(process)
    return [
        *goals,
        Goal("P9 differences after both", str(different), "0", different == 0),
        Goal("P9 processes that ended", str(dead), "0", dead == 0),
        Goal(
            f"{len(changed)} changes arrive by polling", f"{arrived:.0f} s", "60 s", arrived <= 60
        ),
    ]


def killed_syncs(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """S15: SIGKILL at random moments of a first sync with lookups."""
    rng = random.Random(7)
    killed = 0
    with running(150, 2_500, 21) as sandbox:
        back_office = back_offices.build(sandbox.url)
        while killed < KILLS:
            process = back_office.start(*SYNC)
            try:
                process.wait(rng.uniform(1.2, 7.0))
            except Exception:
                killed += 1
            finally:
                end(process)
            sandbox.control("change", {"orders": 10, "seed": killed})
            if process.returncode == 0:
                back_office.query("UPDATE sync_lookup SET due_at = now()")
        back_office.sync()
        # Appointments are read every ten minutes, because they may change without their order.
        back_office.query("UPDATE sync_lookup SET due_at = now() WHERE kind LIKE 'appointment-%'")
        back_office.sync()
        different = _all_differences(sandbox, back_office)
    return [
        Goal(f"S15 differences after {killed} SIGKILLs", str(different), "0", different == 0),
    ]


def failing_service(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """A first sync with lookups, while every tenth call is answered 429, 500 or 503."""
    with running(150, 2_500, 22) as sandbox:
        back_office = back_offices.build(sandbox.url)
        sandbox.control(
            "faults", {"rate": 0.1, "statuses": [429, 500, 503], "retry_after": 0.05, "seed": 3}
        )
        back_office.sync()
        report = sandbox.control("status")["faults"]
        sandbox.control("faults", method="DELETE")
        different = _all_differences(sandbox, back_office)
    share = f"{report['hit'].get('status', 0)} of {report['seen']} calls failed"
    return [Goal(f"differences after a first sync ({share})", str(different), "0", different == 0)]


def _all_differences(sandbox: Sandbox, back_office: BackOffice) -> int:
    """Count the differences in all columns and all records, byte for byte."""
    found = compare.differences(sandbox, back_office)
    found += compare.list_differences(sandbox, back_office)
    found += compare.single_differences(sandbox, back_office, None)
    for line in found[:10]:
        print(f"  {line}", flush=True)
    return len(found)


if __name__ == "__main__":
    sys.exit(run("chaos-sync", (paging_drift, database_outage, killed_syncs, failing_service), {}))
