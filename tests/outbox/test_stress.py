"""P5 and P6 of reliability.md with few commands. `./run chaos outbox` runs many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outbox import stress
from tests.outbox.cases import CASES
from tests.outbox.worker_setup import set_up_workers
from tests.outbox.workers import environment
from tests.sandboxes import Sandbox, running


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with running(users=30, orders=40, seed=27) as sandbox:
        yield sandbox


@pytest.mark.usefixtures("transactional_db")
def test_killed_workers_lose_and_repeat_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    with set_up_workers(
        sandbox, environment(), tmp_path / "log", **stress.SHORT_TIMES
    ) as worker_setup:
        report = stress.kill_workers_at_random(worker_setup, 26, 6, seed=4)
    assert report.kills == 6 and report.commands == 26
    assert not report.problems, "\n".join([report.summary(), *report.problems])


@pytest.mark.usefixtures("transactional_db")
def test_workers_stopped_past_their_lease_repeat_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    cases = [case for case in CASES if case.command_type.kind in ("order.create", "payor.create")]
    with set_up_workers(
        sandbox, environment(), tmp_path / "log", **stress.LONG_LEASES
    ) as worker_setup:
        report = stress.stop_workers_at_lines(worker_setup, cases)
    assert report.kills == report.commands == 12
    assert not report.problems, "\n".join([report.summary(), *report.problems])
