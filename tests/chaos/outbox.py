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
from tests.outbox import storm as storms  # noqa: E402
from tests.outbox.cases import CASES  # noqa: E402
from tests.outbox.proving import proving  # noqa: E402
from tests.outbox.racing import twice, two_staff  # noqa: E402
from tests.outbox.storm import Tally  # noqa: E402
from tests.sandboxes import running  # noqa: E402
from tests.sync.house import House, Houses  # noqa: E402
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
TOTAL = Tally()


def storm(folder: Path, _: Houses) -> list[Goal]:
    """P5: commands of every kind, with 45 % invalid answers, while workers are killed."""
    empty_all_tables()
    started = time.monotonic()
    with (
        running(users=30, orders=40, seed=29) as sandbox,
        proving(sandbox, {}, folder / "workers.log", **storms.TIMES) as proof,
    ):
        tally = storms.storm(proof, COMMANDS, KILLS, seed=1)
    extent = f"{COMMANDS} commands, {time.monotonic() - started:.0f} s, {tally.decided} by a person"
    return [
        Goal(f"P5 workers killed ({extent})", str(tally.kills), str(KILLS), tally.kills >= KILLS),
        *_goals("P5", tally),
    ]


def paused_workers(folder: Path, _: Houses) -> list[Goal]:
    """P6: workers stop for longer than their lease, at 6 lines of code and 10 kinds of command."""
    empty_all_tables()
    with (
        running(users=30, orders=40, seed=31) as sandbox,
        proving(sandbox, {}, folder / "paused.log", **storms.LONG) as proof,
    ):
        cases = [case for case in CASES if case.kind.kind in KINDS]
        tally = storms.paused(proof, cases)
    expected = len(KINDS) * len(storms.LINES)
    return [
        Goal("P6 workers stopped", str(tally.kills), str(expected), tally.kills == expected),
        *_goals("P6", tally),
    ]


def races(folder: Path, _: Houses) -> list[Goal]:
    """P7, P8: two people reschedule one visit at once, and one form is sent twice at once."""
    empty_all_tables()
    with (
        running(users=30, orders=40, seed=37) as sandbox,
        proving(sandbox, {}, folder / "races.log") as proof,
        receiving(House(os.environ["DATABASE_URL"], sandbox.url, folder / "web.log")) as url,
    ):
        started = time.monotonic()
        rescheduled = two_staff(proof, url, ROUNDS)
        sent_twice = twice(proof, url, ROUNDS)
    for error in (*rescheduled.wrong, *sent_twice.wrong):
        print(f"  {error}", flush=True)
    extent = f"{ROUNDS} rounds each, {time.monotonic() - started:.0f} s"
    return [
        Goal(f"P7 not one winner, or the other not told ({extent})", str(len(rescheduled.wrong)),
             "0", not rescheduled.wrong and rescheduled.played == ROUNDS),
        Goal("P8 not one command and one answer", str(len(sent_twice.wrong)), "0",
             not sent_twice.wrong and sent_twice.played == ROUNDS),
    ]  # fmt: skip


def _goals(name: str, tally: Tally) -> list[Goal]:
    for error in tally.words:
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
            ("otherwise wrong", sum(tally.wrong_kinds.values())),
        )
    ]


if __name__ == "__main__":
    code = run(
        "chaos-outbox", (storm, paused_workers, races), {"commands": COMMANDS, "rounds": ROUNDS}
    )
    print(f"\n{TOTAL.line()}")
    sys.exit(code)
