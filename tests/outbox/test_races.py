"""Two people, or one who clicks twice, in front of the real web server; what the bell may cost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
import redis
from celery import current_app

from backoffice.devtools.embedded import free_port
from backoffice.models import CommandRecord
from backoffice.outbox import resolve, withdraw
from tests.outbox import workers
from tests.outbox.cases import CASES
from tests.outbox.proving import SEND_SECONDS, Proof
from tests.outbox.racing import twice, two_staff
from tests.outbox.scene import Case
from tests.sync.house import House
from tests.webhooks.sending import receiving

State = CommandRecord.State
CANCEL = next(case for case in CASES if case.kind.kind == "order.cancel")


@pytest.fixture(scope="module")
def transactional_db(kept_db: None) -> None:
    """In the place of pytest-django's, which empties all tables after each test."""


@pytest.fixture(scope="module")
def web(proof: Proof, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("web")
    url = workers.environment()["DATABASE_URL"]
    with receiving(House(url, proof.scene.sandbox.url, folder / "web.log")) as address:
        yield address


def test_of_two_who_move_a_visit_one_wins_and_the_other_is_told(proof: Proof, web: str) -> None:
    found = two_staff(proof, web, 6)
    assert found.played == 6 and not found.wrong, "\n".join(found.wrong)


def test_a_form_sent_twice_at_once_is_one_command(proof: Proof, web: str) -> None:
    found = twice(proof, web, 8)
    assert found.played == 8 and not found.wrong, "\n".join(found.wrong)


def _taken_back(proof: Proof, row: CommandRecord) -> bool:
    return withdraw(proof.request(), row.pk)


@pytest.mark.parametrize(
    ("at", "silent"),
    [(workers.CLAIMED, False), (workers.CHECKED, False), (workers.CLAIMED, True)],
    ids=["taken", "checked", "taken, and the service tells nothing"],
)
def test_what_is_taken_back_in_a_workers_hands_is_not_sent(
    proof: Proof, at: tuple[str, ...], silent: bool
) -> None:
    row = proof.asked(CANCEL.make(proof.scene))
    since = proof.last_write()
    pid = proof.workers.stopped(at)
    assert pid is not None and _taken_back(proof, row)
    if silent:
        proof.scene.sandbox.control("faults", {"rate": 1, "kinds": ["html"]})
    proof.workers.go_on(pid)
    proof.scene.sandbox.control("faults", method="DELETE")
    proof.time_passes()
    proof.workers.work()
    row.refresh_from_db()
    assert row.state == State.WITHDRAWN
    assert proof.writes(since, CANCEL.path) == []


def test_what_is_being_sent_cannot_be_taken_back(proof: Proof) -> None:
    row = proof.asked(CANCEL.make(proof.scene))
    pid = proof.workers.stopped(workers.BEGUN)
    assert pid is not None and not _taken_back(proof, row)
    proof.workers.go_on(pid)
    row.refresh_from_db()
    assert row.state == State.DONE


def test_a_worker_stopped_past_its_time_sends_nothing(proof: Proof) -> None:
    """Between saying that it sends and the first byte: nobody knows, so a person decided to send
    it again; then the stopped worker goes on."""
    case = _case("payor.create")
    command = case.make(proof.scene)
    row, since = proof.asked(command), proof.last_write()
    pid = proof.workers.stopped(workers.BEGUN)
    assert pid is not None
    time.sleep(SEND_SECONDS + 0.2)
    proof.time_passes()
    proof.workers.work()
    row.refresh_from_db()
    assert row.state == State.UNDECIDED
    proof.resolve(row, happened=False)
    proof.workers.work()
    proof.workers.go_on(pid)
    row.refresh_from_db()
    assert row.state == State.DONE
    assert len(proof.writes(since, case.path)) == 1
    assert case.effects(proof.scene, command, row.pk) == 1


def _case(kind: str) -> Case:
    return next(case for case in CASES if case.kind.kind == kind)


def test_a_late_answer_closes_what_was_decided_to_be_sent_again(proof: Proof) -> None:
    """The answer lies in a stopped worker's hands; a person, who cannot see it, wants it sent
    again. The answer comes first: nothing is sent a second time."""
    case = _case("payor.create")
    command = case.make(proof.scene)
    row, since = proof.asked(command), proof.last_write()
    pid = proof.workers.stopped(workers.ANSWERED)
    assert pid is not None
    proof.time_passes()
    # The service's search does not show it yet.
    proof.scene.sandbox.prepare_answer("/v3/insurance/search/payor", body=[], times=None)
    proof.workers.work()
    proof.scene.sandbox.control("answers", method="DELETE")
    row.refresh_from_db()
    assert row.state == State.UNDECIDED and not row.found
    assert resolve(proof.request(), row.pk, row.attempts, "again", "", "")
    proof.workers.go_on(pid)
    proof.workers.work()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.DONE, 1)
    assert len(proof.writes(since, case.path)) == 1


@pytest.mark.parametrize("hung", [True, False], ids=["hangs", "is dead"])
def test_asking_waits_for_no_redis(proof: Proof, hung: bool) -> None:
    """The bell is not the work: it costs 0.3 s at the most, where a Redis may take thirty."""
    port = free_port()
    server = subprocess.Popen(
        [_redis(), "--port", str(port), "--save", ""], stdout=subprocess.DEVNULL
    )
    before = current_app.conf.broker_url
    try:
        time.sleep(0.5)
        current_app.conf["broker_url"] = f"redis://127.0.0.1:{port}/0"
        server.send_signal(signal.SIGSTOP if hung else signal.SIGKILL)
        command = CANCEL.make(proof.scene)
        begun = time.monotonic()
        row = proof.asked(command)
        took = time.monotonic() - begun
        assert row.state == State.WAITING and took < 5
    finally:
        current_app.conf["broker_url"] = before
        server.kill()
        server.wait()
    proof.workers.work()
    row.refresh_from_db()
    assert row.state == State.DONE


def _redis() -> str:
    """The program of the Redis that these tests run on."""
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    return os.readlink(f"/proc/{client.info('server')['process_id']}/exe")
