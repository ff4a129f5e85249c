"""A whole installation in a copy of the tree, with servers and data of its own.

Started as `./run up` starts it, killed in one moment with all it runs, and started again."""

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
from backoffice.devtools.launcher import SERVICE_VARIABLES
from tests.bench.processes import alive, family
from tests.sync.house import House, wait_until

NOT_COPIED: Final = (".git", ".venv", "var", ".*_cache")
OURS: Final = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "SECRET_KEY", "FIELD_KEYS")
MOST_SECONDS: Final = 120


@dataclass
class Installation:
    """`settings` are environment variables of all its processes."""

    folder: Path
    service_url: str
    port: int
    settings: dict[str, str] = field(default_factory=dict)
    started_at: float = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.folder.chmod(0o711)  # The servers of root run as somebody else.
        self.tree = self.folder / "tree"
        self.url = f"http://127.0.0.1:{self.port}"
        shutil.copytree(ROOT, self.tree, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def start(self) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in (*OURS, *SERVICE_VARIABLES)
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
        with (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "backoffice.devtools.launcher", "up"],
                cwd=self.tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),
            )

    def healthy(self, person: httpx.Client | None = None) -> float:
        """Seconds from its start until it says that it is ready and `person` sees a page of orders.
        AssertionError with its last words when it ended, or never is."""
        try:
            wait_until(self._is_ready, MOST_SECONDS, "ready", every=0.1)
            if person is not None:
                shown = person.get("/orders/")
                assert shown.status_code == 200, f"/orders/ answered {shown.status_code}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None
        return time.monotonic() - self.started_at

    def _is_ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, "it ended"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/health/ready", timeout=5).status_code == 200
        return False

    def said(self) -> str:
        return (self.folder / "said").read_text(errors="replace")[-3000:]

    @property
    def house(self) -> House:
        """What it keeps, while it runs: the address is another one after each start."""
        told = json.loads((self.tree / "var" / "running.json").read_text())
        log = self.folder / "house.log"
        return House(told["environment"]["DATABASE_URL"], self.service_url, log)

    def cut(self) -> int:
        """SIGKILL to every process, servers included; how many there were. All are stopped first,
        so that none outlives another by the moment it takes to tidy up."""
        if self.process is None or self.process.poll() is not None:
            return 0
        found: set[int] = set()
        while new := set(family(self.process.pid)) - found:
            for pid in new:
                _send(pid, signal.SIGSTOP)
            found |= new
        for pid in found:
            _send(pid, signal.SIGKILL)
        self.process.wait(30)
        wait_until(lambda: not any(map(alive, found)), 30, "all of it to be gone")
        return len(found)

    def end(self) -> None:
        """As Ctrl-C does: a PostgreSQL that is killed leaves shared memory behind."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
            self.cut()


def _send(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def port_that_stays_free() -> int:
    """Below those the system gives to callers: while the installation is down none of them has it,
    and who calls it in vain, again and again, never comes to speak with itself."""
    for port in random.sample(range(20_000, 32_000), 200):
        with contextlib.suppress(OSError), socket.socket() as door:
            door.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
