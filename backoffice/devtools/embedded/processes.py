"""Server processes: start them under an account, wait until they are ready, and stop them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from backoffice.devtools.embedded.places import Account, ServersError

READY_SECONDS: Final = 60
STOP_SECONDS: Final = 20
RESTART_PAUSES: Final = (1, 2, 5, 10, 30)
"""Seconds before the first, second, and later restarts of a server that died."""


def dies_with_parent(signum: int) -> Callable[[], None]:
    """Return a `preexec_fn` after which the kernel sends `signum` when the parent ends (Linux)."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def arrange() -> None:
        libc.prctl(1, signum, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # The parent ended after the fork.
            os._exit(1)

    return arrange


def start(
    command: Sequence[str | Path], base: Path, name: str, owner: Account | None, stop: int
) -> subprocess.Popen[bytes]:
    log = base / "log" / f"{name}.log"
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - our own programs
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=base / name,
            start_new_session=True,
            env=bare_environment(),
            preexec_fn=dies_with_parent(stop),
            **as_account(owner),
        )


@dataclass
class RunningServer:
    """A server that was started and answers at `url`.

    `launch` starts its process again, on the same data and address.
    """

    name: str
    url: str = field(repr=False)
    log: Path
    launch: Callable[[], subprocess.Popen[bytes]] = field(repr=False)
    answers: Callable[[], bool] = field(repr=False)
    process: subprocess.Popen[bytes] = field(init=False, repr=False)
    restarts: int = 0
    restart_at: float | None = None
    recovering: bool = False

    def start(self) -> None:
        """Start the server; raises ServersError when it does not answer in time."""
        self.process = self.launch()
        await_ready(self.process, self.answers, self.name, self.log)

    def tend(self, say: Callable[[str], None]) -> None:
        """Restart the server when it has died, with growing pauses, and report it.

        Call it about once a second. It does not wait for the recovery of the server.
        """
        now = time.monotonic()
        if self.restart_at is not None:
            if now >= self.restart_at:
                self.process, self.restart_at = self.launch(), None
        elif self.process.poll() is not None:
            pause = RESTART_PAUSES[min(self.restarts, len(RESTART_PAUSES) - 1)]
            self.restarts, self.restart_at, self.recovering = self.restarts + 1, now + pause, True
            say(f"{self.name} ended, restarting in {pause} s. Its last output: {self.log}")
        elif self.recovering and self.answers():
            self.restarts, self.recovering = 0, False
            say(f"{self.name} answers again.")


def as_account(owner: Account | None) -> dict[str, Any]:
    return {"user": owner.uid, "group": owner.gid, "extra_groups": []} if owner else {}


def bare_environment() -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**inherited, "LC_ALL": "C", "TZ": "UTC"}


def await_ready(
    process: subprocess.Popen[bytes], answers: Callable[[], bool], name: str, log: Path
) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
            raise ServersError(f"{name} did not start. Its last output, from {log}:\n{tail}")
        time.sleep(0.05)


def stop(process: subprocess.Popen[bytes], gently: int, harder: int) -> None:
    for signum in (gently, harder, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)


def can_run(program: Path, owner: Account) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [str(program), "--version"],
            capture_output=True,
            check=False,
            cwd="/",
            **as_account(owner),
        )
    except OSError:
        return False
    return done.returncode == 0


def free_port() -> int:
    """Return a TCP port that is free at this moment.

    The system assigns ports from 32768 on to outgoing connections. The result is below them,
    because one of those could be taken before it is used.
    """
    for _ in range(100):
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise ServersError("No port is free between 10,000 and 32,000.")
