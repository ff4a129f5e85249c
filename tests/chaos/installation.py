"""A complete installation in a copy of the source tree, with its own servers and data.

It starts as by `./run up`. All of its processes can be killed at once, and it can start again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from backoffice.devtools.embedded import ROOT, dies_with_parent
from backoffice.devtools.environments import SERVICE_VARIABLES
from tests.bench.processes import alive, process_tree
from tests.sync.back_office import BackOffice
from tests.waiting import wait_until

NOT_COPIED: Final = (".git", ".venv", "var", ".*_cache")
NOT_INHERITED: Final = (
    "DATABASE_URL",
    "REDIS_URL",
    "DJANGO_SETTINGS_MODULE",
    "SECRET_KEY",
    "FIELD_KEYS",
)
MAX_SECONDS: Final = 120


@dataclass
class Installation:
    """A copy of the project that runs by itself. `settings` are environment variables."""

    folder: Path
    service_url: str
    port: int
    settings: dict[str, str] = field(default_factory=dict)
    started_at: float = 0
    output_start: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.folder.chmod(0o711)  # When started by root, the servers run as another user.
        self.tree = self.folder / "tree"
        self.url = f"http://127.0.0.1:{self.port}"
        shutil.copytree(ROOT, self.tree, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def start(self) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in (*NOT_INHERITED, *SERVICE_VARIABLES)
        }
        environment |= {
            "PYTHONPATH": str(self.tree),
            "LOCAL": "1",
            "PORT": str(self.port),
            "SERVICE_BASE_URL": self.service_url,
            "MANAGEMENT_BASE_URL": self.service_url,
            **self.settings,
        }
        self.started_at = time.monotonic()
        with (self.folder / "said").open("ab") as log:
            self.output_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "backoffice.devtools.launcher", "up"],
                cwd=self.tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),
            )

    def wait_until_healthy(self, person: httpx.Client | None = None) -> float:
        """Wait until the installation is ready and `person` gets the order list.

        Return the seconds since the start. Raise AssertionError with the end of the log when the
        installation ends or does not become ready.
        """
        try:
            wait_until(self._is_ready, MAX_SECONDS, "ready", every=0.1)
            if person is not None:
                page = person.get("/orders/")
                assert page.status_code == 200, f"/orders/ answered {page.status_code}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None
        return time.monotonic() - self.started_at

    def _is_ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "it ended"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/health/ready", timeout=5).status_code == 200
        return False

    def wait_until_started(self) -> None:
        """Wait until the launcher has finished its start and watches its processes.

        Before that, it waits for `/health/ready` itself and restarts nothing.
        """
        self.wait_until_healthy()
        wait_until(lambda: "Press Ctrl-C to stop" in self._output(), MAX_SECONDS, "the start")

    def said(self) -> str:
        return self._output()[-3000:]

    def _output(self) -> str:
        """Return the output since the last start."""
        return (self.folder / "said").read_bytes()[self.output_start :].decode(errors="replace")

    @property
    def back_office(self) -> BackOffice:
        """Return access to its database. The address changes with each start."""
        state = json.loads((self.tree / "var" / "running.json").read_text())
        log = self.folder / "back_office.log"
        return BackOffice(state["environment"]["DATABASE_URL"], self.service_url, log)

    def kill_all(self) -> int:
        """Send SIGKILL to every process, servers included. Return their number.

        All of them are stopped by SIGSTOP first, so that none can react to the end of another.
        """
        if self.process is None or self.process.poll() is not None:
            return 0
        killed: set[int] = set()
        while new := set(process_tree(self.process.pid)) - killed:
            for pid in new:
                _send(pid, signal.SIGSTOP)
            killed |= new
        for pid in killed:
            _send(pid, signal.SIGKILL)
        self.process.wait(30)
        wait_until(lambda: not any(map(alive, killed)), 30, "all of it to be gone")
        return len(killed)

    def end(self) -> None:
        """Stop as Ctrl-C does, because a killed PostgreSQL leaves shared memory behind."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
            self.kill_all()


def _send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def find_free_port() -> int:
    """Return a free port below the range of ephemeral ports.

    While the installation is down, no outgoing connection can get this port. A client that retries
    cannot connect to itself.
    """
    for port in random.sample(range(20_000, 32_000), 200):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
