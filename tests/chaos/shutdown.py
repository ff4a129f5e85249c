"""`./run chaos shutdown`: rolling restarts while people work (reliability P24).

The run writes `var/bench/chaos-shutdown.json` and exits non-zero when a proof fails.
`CHAOS_RESTARTS` (20) sets how often each process is replaced.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from tests.bench.common import Goal  # noqa: E402
from tests.chaos.common import empty_all_tables, run  # noqa: E402
from tests.outbox import rolling_restarts  # noqa: E402
from tests.outbox.worker_setup import set_up_workers  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.back_office import BackOffice, BackOffices  # noqa: E402

RESTARTS = int(os.environ.get("CHAOS_RESTARTS", "20"))


def workers(folder: Path, _: BackOffices) -> list[Goal]:
    """P24: a worker of the outbox is asked to stop while it sends, many times."""
    empty_all_tables()
    with (
        running(users=30, orders=40, seed=67) as sandbox,
        set_up_workers(sandbox, {}, folder / "log") as worker_setup,
    ):
        back_office = BackOffice(os.environ["DATABASE_URL"], sandbox.url, folder / "celery")
        tally = rolling_restarts.replace_workers(
            worker_setup, back_office, 8 * RESTARTS, RESTARTS, seed=7
        )
    for error in tally.problems:
        print(f"  {error}", flush=True)
    return [
        Goal(f"P24 worker replaced, {tally.commands} commands", str(tally.kills), str(RESTARTS),
             tally.kills == RESTARTS),
        Goal("P24 done twice", str(tally.duplicates), "0", tally.duplicates == 0),
        Goal("P24 lost", str(tally.lost), "0", tally.lost == 0),
        Goal("P24 sendings cut", str(tally.resolved), "0", tally.resolved == 0),
    ]  # fmt: skip


def web(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """P24: two web processes are replaced in turn during requests."""
    back_office = back_offices.build("http://127.0.0.1:1")
    started = time.monotonic()
    answered, failed = rolling_restarts.replace_web_processes(back_office, folder, RESTARTS)
    rate = answered / (time.monotonic() - started)
    for error in sorted(set(failed)):
        print(f"  {failed.count(error)} × {error}", flush=True)
    return [
        Goal(f"P24 requests failed ({RESTARTS} restarts, {answered} answered, {rate:.0f}/s)",
             str(len(failed)), "0", not failed),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("chaos-shutdown", (workers, web), {"restarts": RESTARTS}))
