"""Outbox workers for tests: killed or stopped at a moment that the test names."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.db import connection

from backoffice.devtools.embedded import dies_with_parent

ROOT = Path(__file__).resolve().parents[2]

CLAIMED = ("delivery.py:_send:call",)
"""The command is claimed. Nothing was read or sent."""
CHECKED = ("delivery.py:_mark_sending:call",)
"""The command is checked. Its row is not in the state "sending" yet."""
BEGUN = ("delivery.py:_mark_sending:return",)
"""The row is in the state "sending". Nothing was sent."""
SENT = (*BEGUN, "transport.py:read:call")
"""The request was sent. The answer is not read."""
ANSWERED = ("delivery.py:_complete:call",)
"""The answer is read. Nothing is stored."""
STORED = (*ANSWERED, "base.py:save:return")
"""Inside the transaction that closes the command."""
CLOSED = ("delivery.py:_complete:return",)
"""The command is closed. The attempt is not recorded yet."""


@dataclass
class Workers:
    """The process that forks workers: `worker_process.py`."""

    process: subprocess.Popen[str] = field(repr=False)

    def work(self) -> str:
        """Run one worker until nothing is due."""
        return str(self._request({})["outcome"])

    def kill_at(self, at: tuple[str, ...]) -> bool:
        """Run one worker and kill it with SIGKILL at this moment. False if it never came."""
        return bool(self._request({"at": at, "signal": "KILL"})["outcome"] == "killed")

    def stop_at(self, at: tuple[str, ...]) -> int | None:
        """Run one worker and stop it at this moment.

        Returns its pid for `resume` and `kill_stopped`, or None if the moment never came.
        """
        answer = self._request({"at": at, "signal": "STOP"})
        return int(answer["pid"]) if answer["outcome"] == "stopped" else None

    def resume(self, pid: int) -> str:
        return str(self._request({"resume": pid})["outcome"])

    def kill_stopped(self, pid: int) -> None:
        assert self._request({"kill": pid})["outcome"] == "killed"

    def work_for_a_second(self) -> None:
        """Run one worker for a second in the background."""
        self._request({"for": 1.0})

    def wait_until_idle(self) -> None:
        """Wait for the background workers, which would claim commands of the next test."""
        self._request({"wait": True})

    def start_loop(self) -> int:
        """Start a worker that runs until it is killed. Return its pid."""
        return int(self._request({"loop": True})["pid"])

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the worker process has ended"
        return json.loads(line)  # type: ignore[no-any-return]


def environment() -> dict[str, str]:
    """Return the environment with the URL of this process's test database."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    name = str(connection.settings_dict["NAME"])
    return {"DATABASE_URL": urlunsplit(parts._replace(path=f"/{name}"))}


@contextlib.contextmanager
def start_workers(environment: Mapping[str, str], log: Path) -> Iterator[Workers]:
    """Start the process of the workers with these settings. Its stderr goes to `log`."""
    with log.open("ab") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.outbox.worker_process"],
            cwd=ROOT,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "backoffice.settings", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            text=True,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )
    try:
        yield Workers(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
