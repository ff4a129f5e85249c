"""`./run chaos outbox`: the long proofs of the outbox (reliability P5 to P8).

The run prints a table, writes `var/bench/chaos-outbox.json`, ends with the line `N commands, 0
duplicates, 0 lost`, and exits non-zero when a proof fails. `CHAOS_COMMANDS` (800) sets the size of
P5, and `CHAOS_ROUNDS` (1,000) sets that of P7 and P8.
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
from tests.outbox import stress  # noqa: E402
from tests.outbox.cases import CASES  # noqa: E402
from tests.outbox.concurrent_staff import race_two_staff, submit_form_twice  # noqa: E402
from tests.outbox.stress import StressReport  # noqa: E402
from tests.outbox.worker_setup import set_up_workers  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.back_office import BackOffice, BackOffices  # noqa: E402
from tests.webhooks.sending import receiving  # noqa: E402

COMMANDS = int(os.environ.get("CHAOS_COMMANDS", "800"))
ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1000"))
KILLS = max(5, COMMANDS // 8)
KINDS = (
    "order.cancel",
    "order.activation",
    "order.create",
    "order.import",
    "patient.create",
    "insurance.create",
    "payor.create",
    "lab_test.create",
    "appointment.book",
    "appointment.move",
)
TOTAL = StressReport()


def storm(folder: Path, _: BackOffices) -> list[Goal]:
    """P5: commands of every kind, with 45 % invalid answers, while workers are killed."""
    empty_all_tables()
    started = time.monotonic()
    with (
        running(users=30, orders=40, seed=29) as sandbox,
        set_up_workers(sandbox, {}, folder / "workers.log", **stress.SHORT_TIMES) as worker_setup,
    ):
        tally = stress.kill_workers_at_random(worker_setup, COMMANDS, KILLS, seed=1)
    extent = (
        f"{COMMANDS} commands, {time.monotonic() - started:.0f} s, {tally.resolved} by a person"
    )
    return [
        Goal(f"P5 workers killed ({extent})", str(tally.kills), str(KILLS), tally.kills >= KILLS),
        *_goals("P5", tally),
    ]


def paused_workers(folder: Path, _: BackOffices) -> list[Goal]:
    """P6: workers stop for longer than their lease, at 6 lines of code and 10 kinds of command."""
    empty_all_tables()
    with (
        running(users=30, orders=40, seed=31) as sandbox,
        set_up_workers(sandbox, {}, folder / "paused.log", **stress.LONG_LEASES) as worker_setup,
    ):
        cases = [case for case in CASES if case.command_type.kind in KINDS]
        tally = stress.stop_workers_at_lines(worker_setup, cases)
    expected = len(KINDS) * len(stress.MOMENTS)
    return [
        Goal("P6 workers stopped", str(tally.kills), str(expected), tally.kills == expected),
        *_goals("P6", tally),
    ]


def races(folder: Path, _: BackOffices) -> list[Goal]:
    """P7, P8: two people reschedule one visit at once, and one form is sent twice at once."""
    empty_all_tables()
    with (
        running(users=30, orders=40, seed=37) as sandbox,
        set_up_workers(sandbox, {}, folder / "races.log") as worker_setup,
        receiving(BackOffice(os.environ["DATABASE_URL"], sandbox.url, folder / "web.log")) as url,
    ):
        started = time.monotonic()
        rescheduled = race_two_staff(worker_setup, url, ROUNDS)
        sent_twice = submit_form_twice(worker_setup, url, ROUNDS)
    for error in (*rescheduled.problems, *sent_twice.problems):
        print(f"  {error}", flush=True)
    extent = f"{ROUNDS} rounds each, {time.monotonic() - started:.0f} s"
    return [
        Goal(f"P7 not one winner, or the other not told ({extent})", str(len(rescheduled.problems)),
             "0", not rescheduled.problems and rescheduled.rounds == ROUNDS),
        Goal("P8 not one command and one answer", str(len(sent_twice.problems)), "0",
             not sent_twice.problems and sent_twice.rounds == ROUNDS),
    ]  # fmt: skip


def _goals(name: str, tally: StressReport) -> list[Goal]:
    for error in tally.problems:
        print(f"  {error}", flush=True)
    TOTAL.commands += tally.commands
    TOTAL.duplicates += tally.duplicates
    TOTAL.lost += tally.lost
    return [
        Goal(f"{name} {problem}", str(count), "0", count == 0)
        for problem, count in (
            ("done twice", tally.duplicates),
            ("lost", tally.lost),
            ("said to have failed, and done", tally.wrongly_failed),
            ("otherwise wrong", sum(tally.problem_kinds.values())),
        )
    ]


if __name__ == "__main__":
    code = run(
        "chaos-outbox", (storm, paused_workers, races), {"commands": COMMANDS, "rounds": ROUNDS}
    )
    print(f"\n{TOTAL.summary()}")
    sys.exit(code)
