"""Delivery of difficult commands: old, faulty, refused, or with an unknown outcome."""

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

from backoffice.outbox.delivery import deliver
from backoffice.outbox.enqueueing import resolve
from backoffice.outbox.models import CommandRecord
from orders.commands import CancelOrder, CreateOrder
from tests.outbox.cases import CASES
from tests.outbox.harness import COMMANDS
from tests.outbox.worker_setup import WorkerSetup, attempt_history
from tests.outbox.workers import environment
from tests.sync.back_office import BackOffice, end
from tests.waiting import wait_until

State = CommandRecord.State
CASE_BY_KIND = {case.command_type.kind: case for case in CASES}


@pytest.fixture(scope="module")
def transactional_db(module_database: None) -> None:
    """Override the fixture of pytest-django, which empties all tables after each test."""


def create_and_enqueue(worker_setup: WorkerSetup, kind: str) -> tuple[Any, CommandRecord]:
    command = CASE_BY_KIND[kind].create_command(worker_setup.records)
    return command, worker_setup.enqueue(command)


def make_due(row: CommandRecord) -> None:
    """Make the command due, and change nothing else."""
    CommandRecord.objects.filter(pk=row.pk).update(due_at=timezone.now() - timedelta(seconds=1))


def test_unreadable_command_of_old_release_is_refused(worker_setup: WorkerSetup) -> None:
    _, old_row = create_and_enqueue(worker_setup, "order.cancel")
    old_row.payload = {"order": 1}
    old_row.save(update_fields=["payload"])
    make_due(old_row)
    _, other_row = create_and_enqueue(worker_setup, "order.cancel")
    worker_setup.harness.deliver()
    old_row.refresh_from_db()
    other_row.refresh_from_db()
    assert other_row.state == State.DONE
    assert (
        old_row.state == State.WAITING
        and "An error in the back office" in old_row.hindrance
        and old_row.due_at > timezone.now()
    )
    for _ in range(4):
        make_due(old_row)
        worker_setup.harness.deliver()
    old_row.refresh_from_db()
    assert old_row.state == State.REFUSED and "Nothing happened" in old_row.refusal
    assert attempt_history(old_row) == ", ".join(["prepare fault"] * 5)


class FailingLookup(CancelOrder, kw_only=True):
    """A command with a lookup that raises."""

    def settle(self, service: Any, sending: Any) -> Any:
        raise ZeroDivisionError


def test_failing_lookup_leads_to_a_decision(worker_setup: WorkerSetup) -> None:
    command, row = create_and_enqueue(worker_setup, "order.cancel")
    kinds = [FailingLookup if kind is CancelOrder else kind for kind in COMMANDS]
    worker_setup.harness.add_fault("drop_after", "/cancel$")
    deliver(kinds, 5)
    for _ in range(5):
        make_due(row)
        deliver(kinds, 5)
    row.refresh_from_db()
    assert (
        row.state == State.UNDECIDED
        and "An error in the back office" in row.hindrance
        and row.attempts == 1
    )
    # The lookup of the next release works.
    make_due(row)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.hindrance) == (State.DONE, "look-up", "")
    assert worker_setup.records.count_events(command.order_id, "cancelled") == 1


def test_lost_sending_is_found_before_it_is_sent_again(
    worker_setup: WorkerSetup,
) -> None:
    """The answer was lost and the command is to be sent again.

    Then the mirror shows the order as canceled. That is no refusal but our own first sending.
    """
    _, row = create_and_enqueue(worker_setup, "order.cancel")
    worker_setup.harness.add_fault("drop_after", "/cancel$")
    worker_setup.harness.deliver()
    CommandRecord.objects.filter(pk=row.pk).update(state=State.WAITING)
    make_due(row)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "look-up", 1)


def test_stored_failure_gets_one_new_key(worker_setup: WorkerSetup) -> None:
    case = CASE_BY_KIND["order.create"]
    command, row = create_and_enqueue(worker_setup, "order.create")
    since = worker_setup.last_write_number()
    worker_setup.harness.add_fault("status", case.path, times=2, statuses=[500], methods=["POST"])
    worker_setup.harness.deliver()
    for _ in range(3):
        worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.attempts, row.keys) == (State.DONE, 3, 2)
    keys = [one["key"] for one in worker_setup.writes(since, case.path)]
    assert len(keys) == 3 and keys[0] == keys[1] != keys[2]
    assert case.count_effects(worker_setup.records, command, row.pk) == 1


def test_old_key_is_sent_again_only_by_a_person(worker_setup: WorkerSetup) -> None:
    case = CASE_BY_KIND["order.create"]
    command, row = create_and_enqueue(worker_setup, "order.create")
    since = worker_setup.last_write_number()
    worker_setup.harness.add_fault("drop_before", case.path, methods=["POST"])
    worker_setup.harness.deliver()
    keyed_at = timezone.now() - timedelta(hours=21)
    CommandRecord.objects.filter(pk=row.pk).update(keyed_at=keyed_at, state=State.WAITING)
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.UNDECIDED, 1)
    assert resolve(worker_setup.request(), row.pk, row.attempts, "again", "", "asked on the phone")
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2)
    first, second = (one["key"] for one in worker_setup.writes(since, case.path))
    assert first != second and case.count_effects(worker_setup.records, command, row.pk) == 1


def test_decision_applies_to_one_attempt(worker_setup: WorkerSetup) -> None:
    _, row = create_and_enqueue(worker_setup, "payor.create")
    worker_setup.harness.add_fault("drop_before", "/v3/payor$")
    worker_setup.harness.deliver()
    worker_setup.harness.pass_time()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED
    request = worker_setup.request()
    assert resolve(request, row.pk, row.attempts, "again", "", "")
    assert not resolve(request, row.pk, row.attempts, "again", "", ""), "second click"
    worker_setup.harness.deliver()
    assert not resolve(request, row.pk, row.attempts, "again", "", "")
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 2)


def test_refusal_of_the_service_names_the_field(worker_setup: WorkerSetup) -> None:
    command = CASE_BY_KIND["order.create"].create_command(worker_setup.records)
    assert isinstance(command, CreateOrder)
    address = msgspec.structs.replace(command.body.patient_address, zip="8500")
    command.body = msgspec.structs.replace(command.body, patient_address=address)
    row = worker_setup.enqueue(command)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.status, row.attempts) == (State.REFUSED, 422, 1)
    assert [one["field"] for one in row.refusal_fields] == ["zip"]


@pytest.mark.parametrize("kind", ["status", "drop_before", "html"])
def test_nothing_is_sent_while_checks_fail(worker_setup: WorkerSetup, kind: str) -> None:
    _, row = create_and_enqueue(worker_setup, "order.cancel")
    since = worker_setup.last_write_number()
    worker_setup.records.sandbox.control("faults", {"rate": 1, "kinds": [kind], "statuses": [503]})
    try:
        worker_setup.harness.deliver()
    finally:
        worker_setup.records.sandbox.control("faults", method="DELETE")
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.WAITING, 0) and row.hindrance
    assert worker_setup.writes(since) == []
    make_due(row)
    worker_setup.harness.deliver()
    row.refresh_from_db()
    assert row.state == State.DONE and not row.hindrance


def test_terminated_worker_finishes_one_request_only(
    worker_setup: WorkerSetup, tmp_path: Path
) -> None:
    """SIGTERM, as at a new release, while the service is slow to answer.

    A real Celery worker finishes the request it is sending, starts no other, and exits. The next
    worker delivers the rest.
    """
    command, row = create_and_enqueue(worker_setup, "order.cancel")
    worker_setup.harness.add_fault(
        "slow_after", CASE_BY_KIND["order.cancel"].path, latency_ms=5_000, methods=["POST", "PATCH"]
    )
    settings = {"OUTBOX_SEND_SECONDS": "30", "LOG_LEVEL": "WARNING"}
    back_office = BackOffice(
        environment()["DATABASE_URL"], worker_setup.records.sandbox.url, tmp_path / "log", settings
    )
    first_worker = _start_celery_worker(back_office)
    try:
        _wake_worker()
        wait_until(lambda: _state(row) == State.SENDING, 60, "the sending", 0.05)
        _, later_row = create_and_enqueue(worker_setup, "patient.create")
        first_worker.send_signal(signal.SIGTERM)
        assert first_worker.wait(30) == 0
    finally:
        end(first_worker)
    row.refresh_from_db()
    assert (row.state, row.confirmed_by, row.attempts) == (State.DONE, "answer", 1)
    assert _state(later_row) == State.WAITING
    second_worker = _start_celery_worker(back_office)
    try:

        def is_done_after_waking() -> bool:
            _wake_worker("patients.tasks.deliver")
            return _state(later_row) == State.DONE

        wait_until(is_done_after_waking, 60, f"the end: {attempt_history(later_row)}", 0.5)
    finally:
        end(second_worker)
    assert worker_setup.records.count_events(command.order_id, "cancelled") == 1


def _start_celery_worker(back_office: BackOffice) -> Any:
    return back_office.start(
        *("-m", "celery", "-A", "backoffice.celery", "worker", "--queues", "outbox"),
        *("--hostname", f"outbox-{os.getpid()}-{time.monotonic_ns()}@%h", "--concurrency", "1"),
        *("--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
    )


def _wake_worker(task: str = "orders.tasks.deliver") -> None:
    current_app.send_task(task, queue="outbox", expires=30)


def _state(row: CommandRecord) -> str:
    return CommandRecord.objects.values_list("state", flat=True).get(pk=row.pk)
