"""Commands of every kind under faulty answers and killed or stopped workers, then a count.

P5 and P6 of reliability.md: `tests/chaos/outbox.py` runs many commands, the suite few.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from backoffice.outbox.models import CommandRecord
from tests.outbox import workers
from tests.outbox.cases import CASES
from tests.outbox.records import CommandCase
from tests.outbox.worker_setup import WorkerSetup, attempt_history

State = CommandRecord.State
SEND_SECONDS = 1
SHORT_TIMES = {
    "OUTBOX_SEND_SECONDS": SEND_SECONDS,
    "OUTBOX_LEASE_SECONDS": 2,
    "OUTBOX_SETTLE_SECONDS": 4,
}
"""A slow request arrives within the settle time."""
LONG_LEASES = {**SHORT_TIMES, "OUTBOX_LEASE_SECONDS": 600, "OUTBOX_SETTLE_SECONDS": 600}
"""For stopped workers: leases end only when the test ends them."""
FAULTY_ANSWERS = {
    "rate": 0.45,
    "kinds": [
        "status", "status_after", "drop_before", "drop_after", "truncate", "html", "slow",
        "slow_after",
    ],
    "statuses": [500, 503],
    "latency_ms": 1000 * SEND_SECONDS + 500,
}  # fmt: skip
RATE_LIMITED = {"rate": 0.45, "kinds": ["status"], "statuses": [429], "retry_after": 0.05}
"""Separate from the other faults: a 429 always means that nothing was done."""
MOMENTS = {
    "taken": workers.CLAIMED,
    "checked": workers.CHECKED,
    "begun": workers.BEGUN,
    "sent": workers.SENT,
    "answered": workers.ANSWERED,
    "closed": workers.CLOSED,
}
CASES_AT_ONCE = 3
"""Cases with stopped workers at the same time. Each worker keeps a database connection."""
SINGLE_SUBJECT_KINDS = ("lab_account.allowlist",)
"""Kinds with only one possible subject."""


@dataclass
class PreparedCommand:
    case: CommandCase
    command: Any
    row: CommandRecord
    effects_before: int


@dataclass
class StressReport:
    """Outcomes of the commands. All numbers except the first three must be 0."""

    commands: int = 0
    kills: int = 0
    resolved: int = 0
    duplicates: int = 0
    lost: int = 0
    wrongly_failed: int = 0
    problem_kinds: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def count(self, worker_setup: WorkerSetup, prepared: PreparedCommand) -> None:
        row = prepared.row
        row.refresh_from_db()
        effects = (
            prepared.case.count_effects(worker_setup.records, prepared.command, row.pk)
            - prepared.effects_before
        )
        self.commands += 1
        self.duplicates += effects > 1
        self.lost += effects < 1 or row.is_open
        self.wrongly_failed += row.state not in (State.DONE, State.GIVEN_UP) and effects > 0
        if effects != 1 or row.state not in (State.DONE, State.GIVEN_UP):
            self.problem_kinds[row.kind] += 1
            self.problems.append(
                f"{row.kind}: {effects} effects, {row.state} {row.refusal}; {attempt_history(row)}"
            )

    def summary(self) -> str:
        return f"{self.commands} commands, {self.duplicates} duplicates, {self.lost} lost"


def enqueue_cases(worker_setup: WorkerSetup, cases: Sequence[CommandCase]) -> list[PreparedCommand]:
    prepared = []
    for case in cases:
        command = case.create_command(worker_setup.records)
        row = worker_setup.enqueue(command)
        prepared.append(
            PreparedCommand(
                case, command, row, case.count_effects(worker_setup.records, command, row.pk)
            )
        )
    return prepared


def mixed_cases(count: int) -> Iterator[CommandCase]:
    """Yield cases of every kind in turn. Kinds with one subject come once."""
    others = [case for case in CASES if case.command_type.kind not in SINGLE_SUBJECT_KINDS]
    yield from (case for case in CASES if case.command_type.kind in SINGLE_SUBJECT_KINDS)
    for number in range(count - len(SINGLE_SUBJECT_KINDS)):
        yield others[number % len(others)]


def kill_workers_at_random(
    worker_setup: WorkerSetup, count: int, kills: int, seed: int, pool: int = 3
) -> StressReport:
    """P5: answer with faults and kill workers at random moments."""
    rng = random.Random(seed)
    prepared = enqueue_cases(worker_setup, list(mixed_cases(count)))
    report = StressReport()
    running = [worker_setup.workers.start_loop() for _ in range(pool)]
    try:
        while report.kills < kills:
            faults = RATE_LIMITED if rng.random() < 0.2 else FAULTY_ANSWERS
            worker_setup.records.sandbox.control("faults", {**faults, "seed": rng.randrange(10**6)})
            time.sleep(rng.uniform(0.2, 0.5))
            index = report.kills % pool
            os.kill(running[index], signal.SIGKILL)
            running[index] = worker_setup.workers.start_loop()
            report.kills += 1
        _wait_until_settled(worker_setup, 120, skip_due_times=False)
        worker_setup.records.sandbox.control("faults", method="DELETE")
        deadline = time.monotonic() + 300
        while CommandRecord.objects.open().exists() and time.monotonic() < deadline:
            # On a busy machine, a command may become undecided only after others are resolved.
            _wait_until_settled(worker_setup, 60, skip_due_times=True)
            _resolve_undecided(worker_setup, prepared, report)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        worker_setup.records.sandbox.control("faults", method="DELETE")
    for one in prepared:
        report.count(worker_setup, one)
    return report


def _wait_until_settled(worker_setup: WorkerSetup, seconds: float, skip_due_times: bool) -> None:
    """Wait until all open commands wait for a person.

    With `skip_due_times` commands become due at once. Leases and the settle time still last.
    """
    deadline = time.monotonic() + seconds
    waiting = CommandRecord.objects.open().exclude(state=State.UNDECIDED)
    while time.monotonic() < deadline and waiting.exists():
        if skip_due_times:
            past = worker_setup.user.date_joined
            waiting.filter(lease_token=None, due_at__gt=past).exclude(state=State.SENDING).update(
                due_at=past
            )
        time.sleep(0.3)


def stop_workers_at_lines(worker_setup: WorkerSetup, cases: Sequence[CommandCase]) -> StressReport:
    """P6: stop workers at fixed lines for longer than their lease (with `LONG_LEASES`).

    Other workers settle their commands, a person resolves the undecided ones, and then the
    stopped workers resume.
    """
    report = StressReport()
    for first in range(0, len(cases), CASES_AT_ONCE):
        _stop_workers_once(worker_setup, cases[first : first + CASES_AT_ONCE], report)
    return report


def _stop_workers_once(
    worker_setup: WorkerSetup, cases: Sequence[CommandCase], report: StressReport
) -> None:
    stopped, prepared = [], []
    for case in cases:
        for moment, frames in MOMENTS.items():
            prepared += enqueue_cases(worker_setup, [case])
            pid = worker_setup.workers.stop_at(frames)
            assert pid is not None, f"{case.command_type.kind}: no worker came to {moment}"
            stopped.append(pid)
    time.sleep(SEND_SECONDS + 0.2)
    worker_setup.expire_waits()
    worker_setup.workers.work()
    _resolve_undecided(worker_setup, prepared, report)
    worker_setup.workers.work()
    for pid in stopped:
        assert worker_setup.workers.resume(pid) == "ended"
    worker_setup.expire_waits()
    worker_setup.workers.work()
    for one in prepared:
        report.count(worker_setup, one)
    report.kills += len(stopped)


def _resolve_undecided(
    worker_setup: WorkerSetup, prepared: Sequence[PreparedCommand], report: StressReport
) -> None:
    """Resolve each undecided command as a person who knows what happened."""
    for one in prepared:
        one.row.refresh_from_db()
        if one.row.state == State.UNDECIDED:
            report.resolved += 1
            effects = (
                one.case.count_effects(worker_setup.records, one.command, one.row.pk)
                - one.effects_before
            )
            worker_setup.resolve(one.row, happened=effects > 0)
