"""P24 of reliability.md, small: `./run chaos shutdown` has it large."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outbox import rolling
from tests.outbox.proving import proving
from tests.outbox.workers import environment
from tests.sandboxes import running
from tests.sync.house import House


@pytest.mark.usefixtures("transactional_db")
def test_workers_are_replaced_and_no_sending_is_cut(tmp_path: Path) -> None:
    with (
        running(users=30, orders=40, seed=61) as sandbox,
        proving(sandbox, environment(), tmp_path / "log") as proof,
    ):
        house = House(environment()["DATABASE_URL"], sandbox.url, tmp_path / "celery")
        tally = rolling.workers(proof, house, count=16, restarts=3, seed=5)
    assert tally.kills == 3
    assert not tally.words, "\n".join([tally.line(), *tally.words])
    assert tally.decided == 0, "sendings were cut"


@pytest.mark.django_db(transaction=True)
def test_web_processes_are_replaced_and_no_request_fails(tmp_path: Path) -> None:
    house = House(environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "web")
    answered, failed = rolling.web(house, tmp_path, restarts=2)
    assert failed == []
    assert answered > 50
