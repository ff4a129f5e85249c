"""`./run chaos shutdown`: rolling restarts while people work (reliability P24).

Writes `var/bench/chaos-shutdown.json` and exits non-zero when a proof fails. `CHAOS_RESTARTS` (20)
sets how often each is replaced.
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
from tests.chaos.common import emptied_database, run  # noqa: E402
from tests.outbox import rolling  # noqa: E402
from tests.outbox.proving import proving  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.house import House, Houses  # noqa: E402

RESTARTS = int(os.environ.get("CHAOS_RESTARTS", "20"))


def workers(folder: Path, _: Houses) -> list[Goal]:
    """P24: a worker of the outbox is told to end while it sends, again and again."""
    emptied_database()
    with (
        running(users=30, orders=40, seed=67) as sandbox,
        proving(sandbox, {}, folder / "log") as proof,
    ):
        house = House(os.environ["DATABASE_URL"], sandbox.url, folder / "celery")
        tally = rolling.workers(proof, house, 8 * RESTARTS, RESTARTS, seed=7)
    for words in tally.words:
        print(f"  {words}", flush=True)
    return [
        Goal(f"P24 worker replaced, {tally.commands} commands", str(tally.kills), str(RESTARTS),
             tally.kills == RESTARTS),
        Goal("P24 done twice", str(tally.duplicates), "0", tally.duplicates == 0),
        Goal("P24 lost", str(tally.lost), "0", tally.lost == 0),
        Goal("P24 sendings cut", str(tally.decided), "0", tally.decided == 0),
    ]  # fmt: skip


def web(folder: Path, houses: Houses) -> list[Goal]:
    """P24: two web processes, replaced in turn under requests."""
    house = houses.build("http://127.0.0.1:1")
    begun = time.monotonic()
    answered, failed = rolling.web(house, folder, RESTARTS)
    rate = answered / (time.monotonic() - begun)
    for words in sorted(set(failed)):
        print(f"  {failed.count(words)} × {words}", flush=True)
    return [
        Goal(f"P24 requests failed ({RESTARTS} restarts, {answered} answered, {rate:.0f}/s)",
             str(len(failed)), "0", not failed),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("chaos-shutdown", (workers, web), {"restarts": RESTARTS}))
