"""For every command: whatever goes wrong, at whatever line, it happens once, or a person is asked.

A case after the other over one sandbox and one mirror; `FAULTS` is the matrix.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from backoffice.models import CommandRecord
from backoffice.outbox import ResendPolicy
from tests.outbox import workers
from tests.outbox.cases import CASES
from tests.outbox.desk import COMMANDS
from tests.outbox.proving import SEND_SECONDS, Proof, history
from tests.outbox.scene import Case

State = CommandRecord.State


@pytest.fixture(scope="module")
def transactional_db(kept_db: None) -> None:
    """In the place of pytest-django's, which empties all tables after each test."""


@dataclass(frozen=True)
class Fault:
    """`do` delivers once, with the fault. `happens`: the service carries it out all the same, and
    what is not sent again by a machine may then happen at most once."""

    name: str
    do: Callable[[Proof, Case], None]
    happens: bool
    known: bool = False
    """Whether it is known here that it did not happen: a machine sends it again, whatever it is."""


def _killed(at: tuple[str, ...]) -> Callable[[Proof, Case], None]:
    def do(proof: Proof, case: Case) -> None:
        assert proof.workers.killed(at), f"no worker came to {at}"

    return do


def _killed_once_it_came(proof: Proof, case: Case) -> None:
    """A server need not read what lies at its door when the connection ends: whether it happens
    would be a matter of luck."""
    since = proof.last_write()
    pid = proof.workers.stopped(workers.SENT)
    assert pid is not None, f"no worker came to {workers.SENT}"
    proof.writes(since, case.path, 1)
    proof.workers.kill(pid)


def _spoiled(kind: str, **more: Any) -> Callable[[Proof, Case], None]:
    def do(proof: Proof, case: Case) -> None:
        methods = ["POST", "PATCH", "PUT", "DELETE"]
        proof.desk.fault(kind, case.path, methods=methods, **more)
        proof.desk.deliver()
        report = proof.scene.sandbox.control("status")["faults"]
        assert report["hit"].get(kind) == 1, f"{case.path} was not met"

    return do


FAULTS = (
    Fault("killed when it is taken", _killed(workers.CLAIMED), happens=False, known=True),
    Fault("killed before it says so", _killed(workers.CHECKED), happens=False, known=True),
    Fault("killed before sending", _killed(workers.BEGUN), happens=False),
    Fault("killed before the answer", _killed_once_it_came, happens=True),
    Fault("killed with the answer", _killed(workers.ANSWERED), happens=True),
    Fault("killed before the commit", _killed(workers.STORED), happens=True),
    Fault("killed after the commit", _killed(workers.CLOSED), happens=True),
    Fault("answer dropped", _spoiled("drop_after"), happens=True),
    Fault("request dropped", _spoiled("drop_before"), happens=False),
    Fault("500 after the work", _spoiled("status_after", statuses=[500]), happens=True),
    Fault("500 instead of the work", _spoiled("status", statuses=[500]), happens=False),
    Fault("answer cut short", _spoiled("truncate"), happens=True),
    Fault("429", _spoiled("status", statuses=[429]), happens=False, known=True),
    Fault("done too late", _spoiled("slow", latency_ms=1000 * SEND_SECONDS + 700), happens=True),
)


ALWAYS = ("killed before the answer", "answer dropped")


@pytest.mark.parametrize("case", CASES, ids=[case.kind.kind for case in CASES])
def test_it_happens_once_or_a_person_is_asked(proof: Proof, case: Case) -> None:
    wrong = []
    for fault in _faults(case):
        wrong += [f"{fault.name}: {each}" for each in _tried(proof, case, fault)]
        proof.scene.sandbox.control("faults", method="DELETE")
    assert not wrong, "\n".join(wrong)


def _faults(case: Case) -> list[Fault]:
    """All of them with OUTBOX_FAULTS=all. Else those two that matter most, and one more in turn: a
    suite that takes an hour is not run."""
    if os.environ.get("OUTBOX_FAULTS") == "all":
        return list(FAULTS)
    turn = FAULTS[CASES.index(case) % len(FAULTS)]
    return [one for one in FAULTS if one is turn or one.name in ALWAYS]


def _tried(proof: Proof, case: Case, fault: Fault) -> Iterator[str]:
    """What is not as it must be."""
    command = case.make(proof.scene)
    since = proof.last_write()
    row = proof.asked(command)
    before = case.effects(proof.scene, command, row.pk)
    fault.do(proof, case)
    # It is looked up, but a slow sending may still arrive: nothing of which nobody knows may be
    # sent again.
    proof.time_passes(settled=False)
    proof.desk.deliver()
    carried_out = [one for one in proof.writes(since, case.path, fault.happens) if one["status"]]
    if not fault.known and len(carried_out) != fault.happens:
        yield f"carried out {len(carried_out)} times at once"
    proof.desk.later()
    row.refresh_from_db()
    effects = case.effects(proof.scene, command, row.pk) - before
    asks = not fault.known and (
        not case.finds if fault.happens else command.resend_policy is ResendPolicy.NEVER
    )
    if fault.name == "killed after the commit":
        asks = False
    if row.state != (State.UNDECIDED if asks else State.DONE):
        yield f"stands at {row.state} {row.refusal} {row.hindrance}, {history(row)}"
    if effects != (fault.happens if asks else 1):
        yield f"{effects} effects, {history(row)}"
    if row.state == State.UNDECIDED:
        proof.resolve(row, happened=True)


def test_every_command_has_a_case() -> None:
    assert {kind.kind for kind in COMMANDS} == {case.kind.kind for case in CASES}
