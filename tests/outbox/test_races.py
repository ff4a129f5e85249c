"""Races of two users, double clicks, withdrawals and stopped workers, and a hanging Redis."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
import redis
from celery import current_app

from backoffice.devtools.embedded import free_port
from backoffice.outbox.enqueueing import resolve, withdraw
from backoffice.outbox.models import CommandRecord
from tests.outbox import workers
from tests.outbox.cases import CASES
from tests.outbox.concurrent_staff import race_two_staff, submit_form_twice
from tests.outbox.records import CommandCase
from tests.outbox.worker_setup import SEND_SECONDS, WorkerSetup
from tests.sync.back_office import BackOffice
from tests.waiting import wait_until
from tests.webhooks.sending import receiving

State = CommandRecord.State
CANCEL = next(case for case in CASES if case.command_type.kind == "order.cancel")


@pytest.fixture(scope="module")
def transactional_db(module_database: None) -> None:
    """Override the fixture of pytest-django, which empties all tables after each test."""


@pytest.fixture(scope="module")
def web(worker_setup: WorkerSetup, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("web")
    url = workers.environment()["DATABASE_URL"]
    with receiving(
        BackOffice(url, worker_setup.records.sandbox.url, folder / "web.log")
    ) as address:
        yield address


def test_two_users_moving_a_visit_have_one_winner(worker_setup: WorkerSetup, web: str) -> None:
    report = race_two_staff(worker_setup, web, 6)
    assert report.rounds == 6 and not report.problems, "\n".join(report.problems)


def test_form_sent_twice_at_once_is_one_command(worker_setup: WorkerSetup, web: str) -> None:
    report = submit_form_twice(worker_setup, web, 8)
    assert report.rounds == 8 and not report.problems, "\n".join(report.problems)


def _withdraw(worker_setup: WorkerSetup, row: CommandRecord) -> bool:
    return withdraw(worker_setup.request(), row.pk)


@pytest.mark.parametrize(
    ("moment", "is_service_silent"),
    [(workers.CLAIMED, False), (workers.CHECKED, False), (workers.CLAIMED, True)],
    ids=["claimed", "checked", "claimed, and the service fails"],
)
def test_command_withdrawn_while_claimed_is_not_sent(
    worker_setup: WorkerSetup, moment: tuple[str, ...], is_service_silent: bool
) -> None:
    row = worker_setup.enqueue(CANCEL.create_command(worker_setup.records))
    since = worker_setup.last_write_number()
    pid = worker_setup.workers.stop_at(moment)
    assert pid is not None and _withdraw(worker_setup, row)
    if is_service_silent:
        worker_setup.records.sandbox.control("faults", {"rate": 1, "kinds": ["html"]})
    worker_setup.workers.resume(pid)
    worker_setup.records.sandbox.control("faults", method="DELETE")
    worker_setup.expire_waits()
    worker_setup.workers.work()
    row.refresh_from_db()
    assert row.state == State.WITHDRAWN
    assert worker_setup.writes(since, CANCEL.path) == []


def test_command_being_sent_cannot_be_withdrawn(worker_setup: WorkerSetup) -> None:
    row = worker_setup.enqueue(CANCEL.create_command(worker_setup.records))
    pid = worker_setup.workers.stop_at(workers.BEGUN)
    assert pid is not None and not _withdraw(worker_setup, row)
    worker_setup.workers.resume(pid)
    row.refresh_from_db()
    assert row.state == State.DONE


def test_worker_stopped_past_its_deadline_sends_nothing(worker_setup: WorkerSetup) -> None:
    """A worker is stopped between the state "sending" and the first byte.

    The command is undecided, and a person decides to send it again. Then the worker resumes.
    """
    case = _case_of_kind("payor.create")
    command = case.create_command(worker_setup.records)
    row, since = worker_setup.enqueue(command), worker_setup.last_write_number()
    pid = worker_setup.workers.stop_at(workers.BEGUN)
    assert pid is not None
    time.sleep(SEND_SECONDS + 0.2)
    worker_setup.expire_waits()
    worker_setup.workers.work()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED
    worker_setup.resolve(row, happened=False)
    worker_setup.workers.work()
    worker_setup.workers.resume(pid)
    row.refresh_from_db()
    assert row.state == State.DONE
    assert len(worker_setup.writes(since, case.path)) == 1
    assert case.count_effects(worker_setup.records, command, row.pk) == 1


def _case_of_kind(kind: str) -> CommandCase:
    return next(case for case in CASES if case.command_type.kind == kind)


def test_late_answer_closes_command_to_be_sent_again(worker_setup: WorkerSetup) -> None:
    """A stopped worker has the answer. A person, who cannot see it, decides to send it again.

    The worker resumes first, so nothing is sent a second time.
    """
    case = _case_of_kind("payor.create")
    command = case.create_command(worker_setup.records)
    row, since = worker_setup.enqueue(command), worker_setup.last_write_number()
    pid = worker_setup.workers.stop_at(workers.ANSWERED)
    assert pid is not None
    worker_setup.expire_waits()
    # The search of the service does not find it yet.
    worker_setup.records.sandbox.prepare_answer("/v3/insurance/search/payor", body=[], times=None)
    worker_setup.workers.work()
    worker_setup.records.sandbox.control("answers", method="DELETE")
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and not row.found
    assert resolve(worker_setup.request(), row.pk, row.attempts, "again", "", "")
    worker_setup.workers.resume(pid)
    worker_setup.workers.work()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 1)
    assert len(worker_setup.writes(since, case.path)) == 1


@pytest.mark.parametrize("is_hanging", [True, False], ids=["hanging", "dead"])
def test_enqueue_does_not_wait_for_redis(worker_setup: WorkerSetup, is_hanging: bool) -> None:
    """Waking a worker costs at most 0.3 s, while a hanging Redis may take 30 s."""
    port = free_port()
    server = subprocess.Popen(
        [_redis_program(), "--port", str(port), "--save", ""], stdout=subprocess.DEVNULL
    )
    broker_url = current_app.conf.broker_url
    try:
        wait_until(lambda: _answers(port), 60, "Redis answers")
        current_app.conf["broker_url"] = f"redis://127.0.0.1:{port}/0"
        server.send_signal(signal.SIGSTOP if is_hanging else signal.SIGKILL)
        command = CANCEL.create_command(worker_setup.records)
        started = time.monotonic()
        row = worker_setup.enqueue(command)
        seconds = time.monotonic() - started
        assert row.state == State.WAITING and seconds < 5
    finally:
        current_app.conf["broker_url"] = broker_url
        server.kill()
        server.wait()
    worker_setup.workers.work()
    row.refresh_from_db()
    assert row.state == State.DONE


def _answers(port: int) -> bool:
    with contextlib.suppress(redis.RedisError), redis.Redis(port=port) as client:
        return bool(client.ping())
    return False


def _redis_program() -> str:
    """Return the path of the Redis program that these tests run on."""
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    return os.readlink(f"/proc/{client.info('server')['process_id']}/exe")
