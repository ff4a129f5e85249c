"""`./run chaos http`: hostile requests at the running application for two minutes each (P11).

The API against its own description, then the fuzzer of all pages. Prints a table and what went
wrong, writes `var/bench/chaos-http.json`, and exits non-zero when a proof fails. `CHAOS_SECONDS`
(120) is how long each takes; `CHAOS_SEED` (the time, printed) makes the same requests again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.access.canaries import ABOUT_PEOPLE
from tests.access.fuzzing import Fuzzer
from tests.access.properties import tried
from tests.access.served import serving
from tests.bench.common import Goal
from tests.chaos.common import run
from tests.sync.house import Houses
from tests.webhooks.sending import percentile

SECONDS = int(os.environ.get("CHAOS_SECONDS", "120"))
SEED = int(os.environ.get("CHAOS_SEED") or time.time())
SLOWEST_MS = 1_000


def properties(folder: Path, houses: Houses) -> list[Goal]:
    """Requests made up from the description of the API are answered as it says."""
    with serving(houses) as site:
        found = tried(site, folder, "--max-time", str(SECONDS), "--seed", str(SEED % 2**32))
    if not found.accepted:
        print(found.said)
    kinds = f"of {found.operations} operations"
    return [
        Goal(f"P11 the API is as described, {kinds}", str(found.accepted), "True", found.accepted),
        Goal("P11 requests from the description", f"{found.cases:,}", "over 1,000",
             found.cases > 1_000),
    ]  # fmt: skip


def fuzzer(folder: Path, houses: Houses) -> list[Goal]:
    """Every address with hostile arguments, queries, forms and headers."""
    print(f"  seed {SEED}", flush=True)
    with serving(houses) as site:
        found = Fuzzer(site, SEED).run(SECONDS)
        log = site.house.log.read_text(errors="replace")
    for line in found.wrong[:50]:
        print(f"  {line}")
    slow = percentile(found.seconds, 0.99)
    leaks, broken = len(ABOUT_PEOPLE.findall(log)), log.count("Traceback (most recent")
    answers = ", ".join(f"{count:,} × {status}" for status, count in found.statuses.most_common(6))
    print(f"  {found.sent:,} requests to {len(site.paths)} addresses: {answers}", flush=True)
    return [
        Goal("P11 hostile requests", f"{found.sent:,}", "over 2,000", found.sent > 2_000),
        Goal("P11 answered wrongly", str(len(found.wrong)), "0", not found.wrong),
        Goal("P11 p99", f"{slow:.0f} ms", f"under {SLOWEST_MS:,} ms", slow < SLOWEST_MS),
        Goal("P11 names and tracebacks in the log", str(leaks + broken), "0", not leaks + broken),
    ]


if __name__ == "__main__":
    sys.exit(run("chaos-http", (properties, fuzzer), {"seconds": SECONDS, "seed": SEED}))
