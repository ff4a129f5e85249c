"""Everything is killed in one moment: it comes back by itself, nothing is lost or done twice."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.power import power_cuts
from tests.sandboxes import SandboxFactory

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="processes are found as Linux tells them"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where servers of another account come to: a folder of pytest lets nobody else in."""
    path = Path(tempfile.mkdtemp(prefix="power-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_everything_killed_at_once(folder: Path, sandbox_factory: SandboxFactory) -> None:
    """K17, P10: under deliveries, commands and the first sync. `./run chaos power` does it often,
    and measures."""
    found = power_cuts(folder, sandbox_factory(users=40, orders=300, speed=1_000), cuts=1, seed=3)
    assert found.cuts[0].processes > 20
    assert found.events == found.commands == found.different == []
    assert found.delivered and found.seals
    assert found.done + found.undecided > found.refused
