"""`./run up` restarts a killed PostgreSQL or Redis and reports it; its web process then answers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.processes import parent_of, process_tree
from tests.chaos.installation import Installation, find_free_port
from tests.waiting import wait_until


@pytest.fixture
def installation() -> Iterator[Installation]:
    folder = Path(tempfile.mkdtemp(prefix="bo-"))
    made = Installation(folder, "http://127.0.0.1:9", find_free_port())
    made.start()
    yield made
    made.end()
    shutil.rmtree(folder, ignore_errors=True)


def _server(installation: Installation, program: str) -> int:
    """Return the process that runs `program` and is no child of another such process.

    The lowest number is not always the server: process numbers wrap around.
    """
    assert installation.process is not None
    parents: dict[int, int] = {}
    for pid in process_tree(installation.process.pid):
        with contextlib.suppress(OSError):  # It ended meanwhile.
            if Path(f"/proc/{pid}/comm").read_text().startswith(program):
                parents[pid] = parent_of(pid)
    [server] = [pid for pid, parent in parents.items() if parent not in parents]
    return server


def _kill(installation: Installation, program: str, name: str) -> None:
    before = _server(installation, program)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: f"{name} ended" in installation.said(), 30, "reported", every=0.2)
    wait_until(lambda: f"{name} answers again." in installation.said(), 90, "back", every=0.2)
    assert before != _server(installation, program)
    installation.wait_until_healthy()


def test_launcher_restarts_killed_servers_and_reports_it(installation: Installation) -> None:
    installation.wait_until_started()
    _kill(installation, "postgres", "PostgreSQL")
    _kill(installation, "valkey-server", "Redis")
