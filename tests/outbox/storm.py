"""Many commands of every kind, spoiled answers, workers killed or stopped; then the count.

P5 and P6 of reliability.md: `tests/chaos/outbox.py` runs them large, the suite small.
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

from backoffice.models import CommandRecord
from tests.outbox import workers
from tests.outbox.cases import CASES
from tests.outbox.proving import Proof, history
from tests.outbox.scene import Case

State = CommandRecord.State
SEND_SECONDS = 1
TIMES = {
    "OUTBOX_SEND_SECONDS": SEND_SECONDS,
    "OUTBOX_LEASE_SECONDS": 2,
    "OUTBOX_SETTLE_SECONDS": 4,
}
"""A slow sending arrives within the settle time."""
LONG = {**TIMES, "OUTBOX_LEASE_SECONDS": 600, "OUTBOX_SETTLE_SECONDS": 600}
"""For workers that are stopped: no lease ends but when the test says so."""
SPOILED = {
    "rate": 0.45,
    "kinds": [
        "status", "status_after", "drop_before", "drop_after", "truncate", "html", "slow",
        "slow_after",
    ],
    "statuses": [500, 503],
    "latency_ms": 1000 * SEND_SECONDS + 500,
}  # fmt: skip
LIMITED = {"rate": 0.45, "kinds": ["status"], "statuses": [429], "retry_after": 0.05}
"""By itself: a 429 always says that nothing was done."""
LINES = {
    "taken": workers.CLAIMED,
    "checked": workers.CHECKED,
    "begun": workers.BEGUN,
    "sent": workers.SENT,
    "answered": workers.ANSWERED,
    "closed": workers.CLOSED,
}
AT_ONCE = 3
"""Kinds whose workers are stopped at the same time: each of them keeps a connection."""
DEAREST = ("lab_account.allowlist",)
"""Kinds of which there is one subject only."""


@dataclass
class Asked:
    case: Case
    command: Any
    row: CommandRecord
    before: int


@dataclass
class Tally:
    """What became of the commands. Each figure but the first three must be 0."""

    commands: int = 0
    kills: int = 0
    decided: int = 0
    duplicates: int = 0
    lost: int = 0
    wrongly_failed: int = 0
    wrong_kinds: Counter[str] = field(default_factory=Counter)
    words: list[str] = field(default_factory=list)

    def count(self, proof: Proof, asked: Asked) -> None:
        row = asked.row
        row.refresh_from_db()
        effects = asked.case.effects(proof.scene, asked.command, row.pk) - asked.before
        self.commands += 1
        self.duplicates += effects > 1
        self.lost += effects < 1 or row.is_open
        self.wrongly_failed += row.state not in (State.DONE, State.GIVEN_UP) and effects > 0
        if effects != 1 or row.state not in (State.DONE, State.GIVEN_UP):
            self.wrong_kinds[row.kind] += 1
            self.words.append(
                f"{row.kind}: {effects} effects, {row.state} {row.refusal}; {history(row)}"
            )

    def line(self) -> str:
        return f"{self.commands} commands, {self.duplicates} duplicates, {self.lost} lost"


def prepared(proof: Proof, cases: Sequence[Case]) -> list[Asked]:
    found = []
    for case in cases:
        command = case.make(proof.scene)
        row = proof.asked(command)
        found.append(Asked(case, command, row, case.effects(proof.scene, command, row.pk)))
    return found


def mixed(count: int) -> Iterator[Case]:
    """Every kind in turn, but for those with one subject, which come once."""
    rest = [case for case in CASES if case.kind.kind not in DEAREST]
    yield from (case for case in CASES if case.kind.kind in DEAREST)
    for number in range(count - len(DEAREST)):
        yield rest[number % len(rest)]


def storm(proof: Proof, count: int, kills: int, seed: int, pool: int = 3) -> Tally:
    """P5: spoiled answers to everything, workers killed at random moments."""
    chance = random.Random(seed)
    asked = prepared(proof, list(mixed(count)))
    tally = Tally()
    living = [proof.workers.loop() for _ in range(pool)]
    try:
        while tally.kills < kills:
            spoiled = LIMITED if chance.random() < 0.2 else SPOILED
            proof.scene.sandbox.control("faults", {**spoiled, "seed": chance.randrange(10**6)})
            time.sleep(chance.uniform(0.2, 0.5))
            place = tally.kills % pool
            os.kill(living[place], signal.SIGKILL)
            living[place] = proof.workers.loop()
            tally.kills += 1
        _wait(proof, 120, hurry=False)
        proof.scene.sandbox.control("faults", method="DELETE")
        _wait(proof, 60, hurry=True)
        _decided(proof, asked, tally)
        _wait(proof, 60, hurry=True)
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
        proof.scene.sandbox.control("faults", method="DELETE")
    for one in asked:
        tally.count(proof, one)
    return tally


def _wait(proof: Proof, seconds: float, hurry: bool) -> None:
    """Until nothing is open but what waits for a person. `hurry`: nothing waits for its turn, but
    leases and settling last as long as they do."""
    ends = time.monotonic() + seconds
    waiting = CommandRecord.objects.open().exclude(state=State.UNDECIDED)
    while time.monotonic() < ends and waiting.exists():
        if hurry:
            past = proof.user.date_joined
            waiting.filter(lease_token=None, due_at__gt=past).exclude(state=State.SENDING).update(
                due_at=past
            )
        time.sleep(0.3)


def paused(proof: Proof, cases: Sequence[Case]) -> Tally:
    """P6: workers stopped at fixed lines for longer than their lease (with the times `LONG`).
    Others settle what they had in hand, people decide what is left to them, and then they go on."""
    tally = Tally()
    for first in range(0, len(cases), AT_ONCE):
        _paused(proof, cases[first : first + AT_ONCE], tally)
    return tally


def _paused(proof: Proof, cases: Sequence[Case], tally: Tally) -> None:
    stopped, asked = [], []
    for case in cases:
        for line, at in LINES.items():
            asked += prepared(proof, [case])
            pid = proof.workers.stopped(at)
            assert pid is not None, f"{case.kind.kind}: no worker came to {line}"
            stopped.append(pid)
    time.sleep(SEND_SECONDS + 0.2)
    proof.time_passes()
    proof.workers.work()
    _decided(proof, asked, tally)
    proof.workers.work()
    for pid in stopped:
        assert proof.workers.go_on(pid) == "ended"
    proof.time_passes()
    proof.workers.work()
    for one in asked:
        tally.count(proof, one)
    tally.kills += len(stopped)


def _decided(proof: Proof, asked: Sequence[Asked], tally: Tally) -> None:
    """A person finds out about each that waits for one."""
    for one in asked:
        one.row.refresh_from_db()
        if one.row.state == State.UNDECIDED:
            tally.decided += 1
            effects = one.case.effects(proof.scene, one.command, one.row.pk) - one.before
            proof.resolve(one.row, happened=effects > 0)
