"""`./run chaos http`: send hostile requests to the running application, two minutes each (P11).

One proof tests the API against its schema, the other fuzzes all pages. The run prints a table and
the errors, writes `var/bench/chaos-http.json`, and exits non-zero when a proof fails.
`CHAOS_SECONDS` (120) is the duration of each proof. `CHAOS_SEED` (default: the time, printed)
repeats the requests of an earlier run.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.access.canaries import ABOUT_PEOPLE
from tests.access.fuzzing import Fuzzer
from tests.access.properties import run_tester
from tests.access.served_data_set import serve_small_data_set
from tests.bench.common import Goal
from tests.chaos.common import run
from tests.sync.back_office import BackOffices
from tests.webhooks.sending import percentile

SECONDS = int(os.environ.get("CHAOS_SECONDS", "120"))
SEED = int(os.environ.get("CHAOS_SEED") or time.time())
MAX_P99_MS = 1_000


def api_schema(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """Responses to requests generated from the API schema match the schema."""
    with serve_small_data_set(back_offices) as site:
        found = run_tester(site, folder, "--max-time", str(SECONDS), "--seed", str(SEED % 2**32))
    if not found.accepted:
        print(found.output)
    scope = f"of {found.operations} operations"
    return [
        Goal(f"P11 the API is as described, {scope}", str(found.accepted), "True", found.accepted),
        Goal("P11 requests from the description", f"{found.cases:,}", "over 1,000",
             found.cases > 1_000),
    ]  # fmt: skip


def fuzzer(folder: Path, back_offices: BackOffices) -> list[Goal]:
    """Every URL with hostile arguments, queries, forms and headers."""
    print(f"  seed {SEED}", flush=True)
    with serve_small_data_set(back_offices) as site:
        found = Fuzzer(site, SEED).run(SECONDS)
        log = site.back_office.log.read_text(errors="replace")
    for line in found.problems[:50]:
        print(f"  {line}")
    p99 = percentile(found.seconds, 0.99)
    leaks, broken = len(ABOUT_PEOPLE.findall(log)), log.count("Traceback (most recent")
    answers = ", ".join(f"{count:,} × {status}" for status, count in found.statuses.most_common(6))
    print(f"  {found.sent:,} requests to {len(site.paths)} addresses: {answers}", flush=True)
    return [
        Goal("P11 hostile requests", f"{found.sent:,}", "over 2,000", found.sent > 2_000),
        Goal("P11 answered wrongly", str(len(found.problems)), "0", not found.problems),
        Goal("P11 p99", f"{p99:.0f} ms", f"under {MAX_P99_MS:,} ms", p99 < MAX_P99_MS),
        Goal("P11 names and tracebacks in the log", str(leaks + broken), "0", not leaks + broken),
    ]


if __name__ == "__main__":
    sys.exit(run("chaos-http", (api_schema, fuzzer), {"seconds": SECONDS, "seed": SEED}))
