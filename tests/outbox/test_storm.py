"""P5 and P6 of reliability.md, small: `./run chaos outbox` has them large."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.outbox import storm as storms
from tests.outbox.cases import CASES
from tests.outbox.proving import proving
from tests.outbox.workers import environment
from tests.sandboxes import Sandbox, running


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with running(users=30, orders=40, seed=27) as sandbox:
        yield sandbox


@pytest.mark.usefixtures("transactional_db")
def test_nothing_is_done_twice_or_lost_in_a_storm(sandbox: Sandbox, tmp_path: Path) -> None:
    with proving(sandbox, environment(), tmp_path / "log", **storms.TIMES) as proof:
        tally = storms.storm(proof, 26, 6, seed=4)
    assert tally.kills == 6 and tally.commands == 26
    assert not tally.words, "\n".join([tally.line(), *tally.words])


@pytest.mark.usefixtures("transactional_db")
def test_workers_stopped_past_their_lease_do_nothing_twice(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    cases = [case for case in CASES if case.kind.kind in ("order.create", "payor.create")]
    with proving(sandbox, environment(), tmp_path / "log", **storms.LONG) as proof:
        tally = storms.paused(proof, cases)
    assert tally.kills == tally.commands == 12
    assert not tally.words, "\n".join([tally.line(), *tally.words])
