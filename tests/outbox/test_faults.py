"""For every command: whatever goes wrong, at whatever line, it happens once, or a person is asked.

A case after the other over one sandbox and one mirror; `FAULTS` is the matrix.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.test import RequestFactory, override_settings
from pytest_django import DjangoDbBlocker

from backoffice import outbox, remote
from backoffice.models import CommandRecord, User
from backoffice.outbox import Again
from tests.outbox import workers
from tests.outbox.cases import CASES
from tests.outbox.desk import COMMANDS, Desk
from tests.outbox.scene import Case, Scene
from tests.outbox.workers import Workers
from tests.sandboxes import running
from tests.sync.house import wait_until

State = CommandRecord.State
SEND_SECONDS = 1


@dataclass
class Proof:
    """One sandbox, one mirror, and workers to kill."""

    desk: Desk
    scene: Scene
    workers: Workers
    user: User

    def asked(self, command: outbox.Command) -> CommandRecord:
        request = RequestFactory().post("/")
        request.user = self.user
        return outbox.ask(request, command, uuid.uuid4())

    def last_write(self) -> int:
        return int(self.scene.sandbox.control("writes?since=1000000000")["last"])

    def writes(self, since: int, path: str) -> list[dict[str, Any]]:
        """The calls that came since, once they have all been carried out that will be."""
        found: list[dict[str, Any]] = []

        def over() -> bool:
            found[:] = self.scene.sandbox.control(f"writes?since={since}")["writes"]
            return all(one["status"] or one["fault"] in NEVER_DONE for one in found)

        wait_until(over, 10, "what came to the sandbox to be carried out")
        return [one for one in found if re.search(path, one["path"])]


NEVER_DONE = ("status", "drop_before")


@pytest.fixture(scope="module")
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """In the place of pytest-django's, which empties all tables after each test."""
    with django_db_blocker.unblock():
        yield
        call_command("flush", interactive=False, verbosity=0)
        connections.close_all()


@pytest.fixture(scope="module")
def proof(
    transactional_db: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Proof]:
    log = tmp_path_factory.mktemp("faults") / "workers.log"
    with (
        running(users=30, orders=40, seed=23) as sandbox,
        override_settings(
            SERVICE_BASE_URL=sandbox.url,
            MANAGEMENT_BASE_URL=sandbox.url,
            OUTBOX_SEND_SECONDS=SEND_SECONDS,
        ),
    ):
        remote.service.cache_clear()
        desk = Desk(sandbox)
        desk.mirror()
        user = User.objects.create_user("coordinator")
        scene = Scene(sandbox)
        try:
            with workers.ready(_environment(sandbox.url), log) as ready:
                yield Proof(desk, scene, ready, user)
        finally:
            scene.close()
            remote.service.cache_clear()


def _environment(url: str) -> dict[str, str]:
    """The settings of the workers: the test's database and sandbox."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    name = str(connection.settings_dict["NAME"])
    return {
        "DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}")),
        "SERVICE_BASE_URL": url,
        "MANAGEMENT_BASE_URL": url,
    }


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
    Fault("killed before the answer", _killed(workers.SENT), happens=True),
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


@pytest.mark.parametrize("case", CASES, ids=[case.kind.kind for case in CASES])
def test_it_happens_once_or_a_person_is_asked(proof: Proof, case: Case) -> None:
    wrong = []
    for fault in FAULTS:
        wrong += [f"{fault.name}: {each}" for each in _tried(proof, case, fault)]
        proof.scene.sandbox.control("faults", method="DELETE")
    assert not wrong, "\n".join(wrong)


def _tried(proof: Proof, case: Case, fault: Fault) -> Iterator[str]:
    """What is not as it must be."""
    command = case.make(proof.scene)
    before, since = case.effects(proof.scene, command), proof.last_write()
    row = proof.asked(command)
    fault.do(proof, case)
    # Time has not passed yet: nothing of which nobody knows may be sent again.
    proof.desk.deliver()
    carried_out = [one for one in proof.writes(since, case.path) if one["status"]]
    if not fault.known and len(carried_out) != fault.happens:
        yield f"carried out {len(carried_out)} times at once"
    proof.desk.later()
    row.refresh_from_db()
    effects = case.effects(proof.scene, command) - before
    asks = not fault.known and (not case.finds if fault.happens else command.again is Again.NEVER)
    if fault.name == "killed after the commit":
        asks = False
    if row.state != (State.UNDECIDED if asks else State.DONE):
        yield f"stands at {row.state} {row.refusal} {row.hindrance}, {_history(row)}"
    if effects != (fault.happens if asks else 1):
        yield f"{effects} effects, {_history(row)}"
    if row.state == State.UNDECIDED:
        outbox.decide(_request(proof), row.pk, row.attempts, "give-up", "", "")


def test_every_command_has_a_case() -> None:
    assert {kind.kind for kind in COMMANDS} == {case.kind.kind for case in CASES}


def _request(proof: Proof) -> Any:
    request = RequestFactory().post("/")
    request.user = proof.user
    return request


def _history(row: CommandRecord) -> str:
    return ", ".join(f"{one.phase} {one.outcome}" for one in row.history.order_by("pk"))
