"""P24 of reliability.md with few restarts. `./run chaos shutdown` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outbox import rolling_restarts
from tests.outbox.worker_setup import set_up_workers
from tests.outbox.workers import environment
from tests.sandboxes import running
from tests.sync.back_office import BackOffice


@pytest.mark.usefixtures("transactional_db")
def test_replaced_workers_interrupt_no_request(tmp_path: Path) -> None:
    with (
        running(users=30, orders=40, seed=61) as sandbox,
        set_up_workers(sandbox, environment(), tmp_path / "log") as worker_setup,
    ):
        back_office = BackOffice(environment()["DATABASE_URL"], sandbox.url, tmp_path / "celery")
        report = rolling_restarts.replace_workers(
            worker_setup, back_office, count=16, restarts=3, seed=5
        )
    assert report.kills == 3
    assert not report.problems, "\n".join([report.summary(), *report.problems])
    assert report.resolved == 0, "requests were interrupted"


@pytest.mark.django_db(transaction=True)
def test_replaced_web_processes_fail_no_request(tmp_path: Path) -> None:
    back_office = BackOffice(environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "web")
    answered, failed = rolling_restarts.replace_web_processes(back_office, tmp_path, restarts=2)
    assert failed == []
    assert answered > 50
