"""`./run chaos power`: kill all processes at once, several times (reliability K17, P10).

The run writes `var/bench/chaos-power.json` and exits non-zero when a proof fails. `CHAOS_CUTS` (6)
sets the number of power cuts. `CHAOS_SEED` (default: the time, printed) repeats their moments.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "backoffice.settings")
os.environ.setdefault("LOCAL", "1")
os.environ.setdefault("LOG_LEVEL", "ERROR")
django.setup()

from tests.bench.common import Goal  # noqa: E402
from tests.chaos.common import run  # noqa: E402
from tests.chaos.power_cuts import power_cuts  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.back_office import BackOffices  # noqa: E402

CUTS = int(os.environ.get("CHAOS_CUTS", "6"))
SEED = int(os.environ.get("CHAOS_SEED") or time.time())
SECONDS = 30


def power(_: Path, __: BackOffices) -> list[Goal]:
    """P10: kill launcher, servers, web, workers and beat during events, staff work and syncs."""
    print(f"  seed {SEED}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="power-") as folder,
        running(users=200, orders=2_000, speed=240) as sandbox,
    ):
        found = power_cuts(Path(folder), sandbox, CUTS, SEED)
    for cut in found.cuts:
        print(
            f"  {cut.processes} processes killed with {cut.runs} runs, {cut.sendings} sendings and"
            f" {cut.events} events in hand: healthy in {cut.seconds:.1f} s"
        )
    for error in (*found.events[:10], *found.commands, *found.different[:10]):
        print(f"  {error}")
    slowest = max(cut.seconds for cut in found.cuts)
    sendings = sum(cut.sendings for cut in found.cuts)
    commands = found.done + found.undecided + found.refused
    extent = f"{commands} commands, {found.undecided} left to a person, {found.refused} refused"
    return [
        Goal(f"P10 start to healthy, slowest of {CUTS}", f"{slowest:.1f} s", f"{SECONDS} s",
             slowest <= SECONDS),
        Goal("P10 sendings that were cut", str(sendings), "some", sendings > 0),
        Goal(f"P10 events lost or applied twice, of {found.delivered}", str(len(found.events)), "0",
             not found.events and found.delivered > 0),
        Goal(f"P10 done twice or lost ({extent})", str(len(found.commands)), "0",
             not found.commands and found.done > 0),
        Goal("P10 differences from the service", str(len(found.different)), "0",
             not found.different),
        Goal("P10 audit trail verified", f"{found.seals} seals", "some", found.seals > 0),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(run("chaos-power", (power,), {"cuts": CUTS, "seed": SEED}))
