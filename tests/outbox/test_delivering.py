"""What workers do with commands that are hard to deliver: old, faulty, refused, half sent."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from celery import current_app
from django.utils import timezone

from backoffice import outbox
from backoffice.models import CommandRecord
from backoffice.outbox import resolve
from orders.commands import CancelOrder, CreateOrder
from tests.outbox.cases import CASES
from tests.outbox.desk import COMMANDS
from tests.outbox.proving import Proof, history
from tests.outbox.workers import environment
from tests.sync.house import House, end, wait_until

State = CommandRecord.State
CASE = {case.kind.kind: case for case in CASES}


@pytest.fixture(scope="module")
def transactional_db(kept_db: None) -> None:
    """In the place of pytest-django's, which empties all tables after each test."""


def asked(proof: Proof, kind: str) -> tuple[Any, CommandRecord]:
    command = CASE[kind].make(proof.scene)
    return command, proof.asked(command)


def due(row: CommandRecord) -> None:
    """Its turn has come; nothing else has changed."""
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now() - timedelta(seconds=1))


def test_what_an_older_release_wrote_blocks_nothing_and_ends(proof: Proof) -> None:
    _, old = asked(proof, "order.cancel")
    old.payload = {"order": 1}
    old.save(update_fields=["payload"])
    due(old)
    _, other = asked(proof, "order.cancel")
    proof.desk.deliver()
    old.refresh_from_db()
    other.refresh_from_db()
    assert other.state == State.DONE
    assert old.state == State.WAITING and "fault" in old.hindrance and old.due_at > timezone.now()
    for _ in range(4):
        due(old)
        proof.desk.deliver()
    old.refresh_from_db()
    assert old.state == State.REFUSED and "nothing happened" in old.refusal
    assert history(old) == ", ".join(["prepare fault"] * 5)


class Stumbles(CancelOrder, kw_only=True):
    """Its look-up has a fault."""

    def settle(self, service: Any, sending: Any) -> Any:
        raise ZeroDivisionError


def test_a_fault_in_looking_up_comes_before_a_person(proof: Proof) -> None:
    command, row = asked(proof, "order.cancel")
    kinds = [Stumbles if kind is CancelOrder else kind for kind in COMMANDS]
    proof.desk.fault("drop_after", "/cancel$")
    outbox.deliver(kinds, 5)
    for _ in range(5):
        due(row)
        outbox.deliver(kinds, 5)
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and "fault" in row.hindrance and row.attempts == 1
    # The next release looks up well.
    due(row)
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.hindrance) == (State.DONE, "look-up", "")
    assert proof.scene.events(command.order_id, "cancelled") == 1


def test_what_cannot_be_asked_any_more_may_have_been_our_own_doing(proof: Proof) -> None:
    """Sent, unknown, no trace for a while, to be sent again; then the mirror says "cancelled
    already": that is no refusal."""
    _, row = asked(proof, "order.cancel")
    proof.desk.fault("drop_after", "/cancel$")
    proof.desk.deliver()
    CommandRecord.objects.filter(pk=row.pk).update(state=State.WAITING)
    due(row)
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1)


def test_a_failure_that_the_service_has_stored_gets_one_new_key(proof: Proof) -> None:
    case = CASE["order.create"]
    command, row = asked(proof, "order.create")
    since = proof.last_write()
    proof.desk.fault("status", case.path, times=2, statuses=[500], methods=["POST"])
    proof.desk.deliver()
    for _ in range(3):
        proof.desk.later()
    row.refresh_from_db()
    assert (row.state, row.attempts, row.keys) == (State.DONE, 3, 2)
    keys = [one["key"] for one in proof.writes(since, case.path)]
    assert len(keys) == 3 and keys[0] == keys[1] != keys[2]
    assert case.effects(proof.scene, command, row.pk) == 1


def test_an_old_key_is_not_sent_but_by_a_person(proof: Proof) -> None:
    case = CASE["order.create"]
    command, row = asked(proof, "order.create")
    since = proof.last_write()
    proof.desk.fault("drop_before", case.path, methods=["POST"])
    proof.desk.deliver()
    old = timezone.now() - timedelta(hours=21)
    CommandRecord.objects.filter(pk=row.pk).update(keyed_at=old, state=State.WAITING)
    proof.desk.later()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.UNDECIDED, 1)
    assert resolve(proof.request(), row.pk, row.attempts, "again", "", "asked on the phone")
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2)
    first, second = (one["key"] for one in proof.writes(since, case.path))
    assert first != second and case.effects(proof.scene, command, row.pk) == 1


def test_a_decision_holds_for_the_attempt_it_was_made_on(proof: Proof) -> None:
    _, row = asked(proof, "payor.create")
    proof.desk.fault("drop_before", "/v3/payor$")
    proof.desk.deliver()
    proof.desk.later()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED
    request = proof.request()
    assert resolve(request, row.pk, row.attempts, "again", "", "")
    assert not resolve(request, row.pk, row.attempts, "again", "", ""), "the second click"
    proof.desk.deliver()
    assert not resolve(request, row.pk, row.attempts, "again", "", "")
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2)


def test_the_services_words_come_back_to_the_form(proof: Proof) -> None:
    command = CASE["order.create"].make(proof.scene)
    assert isinstance(command, CreateOrder)
    address = msgspec.structs.replace(command.body.patient_address, zip="8500")
    command.body = msgspec.structs.replace(command.body, patient_address=address)
    row = proof.asked(command)
    proof.desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.status, row.attempts) == (State.REFUSED, 422, 1)
    assert [one["field"] for one in row.refusal_fields] == ["zip"]


@pytest.mark.parametrize("kind", ["status", "drop_before", "html"])
def test_while_the_service_tells_nothing_nothing_is_sent(proof: Proof, kind: str) -> None:
    _, row = asked(proof, "order.cancel")
    since = proof.last_write()
    proof.scene.sandbox.control("faults", {"rate": 1, "kinds": [kind], "statuses": [503]})
    try:
        proof.desk.deliver()
    finally:
        proof.scene.sandbox.control("faults", method="DELETE")
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.WAITING, 0) and row.hindrance
    assert proof.writes(since) == []
    due(row)
    proof.desk.deliver()
    row.refresh_from_db()
    assert row.state == State.DONE and not row.hindrance


def test_a_worker_that_is_told_to_end_ends_its_sending_and_begins_no_other(
    proof: Proof, tmp_path: Path
) -> None:
    """SIGTERM, as a new release sends it, while the service is slow to answer: a real Celery
    worker ends what it is sending, begins nothing else, and is gone; the next one does the rest."""
    command, row = asked(proof, "order.cancel")
    proof.desk.fault(
        "slow_after", CASE["order.cancel"].path, latency_ms=5_000, methods=["POST", "PATCH"]
    )
    settings = {"OUTBOX_SEND_SECONDS": "30", "LOG_LEVEL": "WARNING"}
    house = House(
        environment()["DATABASE_URL"], proof.scene.sandbox.url, tmp_path / "log", settings
    )
    first = _celery(house)
    try:
        _ring()
        wait_until(lambda: _state(row) == State.SENDING, 60, "the sending", 0.05)
        _, later = asked(proof, "patient.create")
        first.send_signal(signal.SIGTERM)
        assert first.wait(30) == 0
    finally:
        end(first)
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "answer", 1)
    assert _state(later) == State.WAITING
    second = _celery(house)
    try:

        def rung() -> bool:
            _ring("patients.tasks.deliver")
            return _state(later) == State.DONE

        wait_until(rung, 60, f"the end: {history(later)}", 0.5)
    finally:
        end(second)
    assert proof.scene.events(command.order_id, "cancelled") == 1


def _celery(house: House) -> Any:
    return house.start(
        *("-m", "celery", "-A", "backoffice.celery", "worker", "--queues", "outbox"),
        *("--hostname", f"outbox-{os.getpid()}-{time.monotonic_ns()}@%h", "--concurrency", "1"),
        *("--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
    )


def _ring(task: str = "orders.tasks.deliver") -> None:
    current_app.send_task(task, queue="outbox", expires=30)


def _state(row: CommandRecord) -> str:
    return CommandRecord.objects.values_list("state", flat=True).get(pk=row.pk)
