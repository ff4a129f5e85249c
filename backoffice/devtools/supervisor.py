"""Child processes of `./run demo` and `./run up`: started in order, restarted, stopped together.

Each child leads its own process group. Ctrl-C therefore reaches only the supervisor, and it can
kill the remaining processes of a dead child. On Linux the kernel ends the children when the
supervisor ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backoffice.devtools.embedded import ROOT, dies_with_parent

STEADY_SECONDS: Final = 60
"""After this many seconds of running, a child is restarted with the shortest pause again."""
BACKOFF: Final = (1, 2, 5, 10, 30)


class ChildError(Exception):
    """A child process failed; the message is for the person at the terminal."""


@dataclass
class ChildProcess:
    name: str
    command: Sequence[str]
    process: subprocess.Popen[bytes]
    started: float
    variables: Mapping[str, str] = field(repr=False)
    orphan_signal: int
    ends: bool = False
    restarts: int = 0
    restart_at: float | None = None


@dataclass
class Supervisor:
    """Runner of commands in `environment`, with their output in `logs`/<name>.log."""

    environment: Mapping[str, str] = field(repr=False)
    logs: Path
    say: Callable[[str], None]
    stop_seconds: float = 8
    children: list[ChildProcess] = field(default_factory=list)

    def complete(self, name: str, *command: str) -> str:
        """Run a command to its end and return its output; raises ChildError."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own commands
                command,
                cwd=ROOT,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )
        try:
            printed = process.communicate()[0].decode(errors="replace")
        except BaseException:
            _signal(process, signal.SIGKILL)
            process.wait()
            raise
        with (self.logs / f"{name}.log").open("a") as log_too:
            log_too.write(printed)
        if process.returncode:
            raise ChildError(f"{name} failed.\n{self._log_tail(name)}")
        return printed

    def start(
        self,
        name: str,
        *command: str,
        ready: Callable[[], bool] | None = None,
        seconds: float = 60,
        variables: Mapping[str, str] | None = None,
        orphan_signal: int = signal.SIGTERM,
        ends: bool = False,
    ) -> None:
        """Start a child and, if `ready` is given, wait for it.

        Raises ChildError as `await_ready` does. `orphan_signal` is what the child gets when the
        supervisor ends. A child with `ends` is restarted only until it succeeds.
        """
        extra = dict(variables or {})
        process = self._spawn(name, command, extra, orphan_signal)
        self.children.append(
            ChildProcess(name, command, process, time.monotonic(), extra, orphan_signal, ends)
        )
        if ready:
            self.await_ready(name, ready, seconds)

    def await_ready(self, name: str, ready: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until `ready()`; raises ChildError when the child ends or the time is over."""
        child = next(child for child in self.children if child.name == name)
        deadline = time.monotonic() + seconds
        while not ready():
            if child.process.poll() is not None or time.monotonic() > deadline:
                raise ChildError(f"{name} did not start.\n{self._log_tail(name)}")
            time.sleep(0.1)

    def tend(self) -> None:
        """Restart dead children with growing pauses; call about once a second."""
        now = time.monotonic()
        for child in list(self.children):
            if child.restart_at is not None:
                if now >= child.restart_at:
                    child.process = self._spawn(
                        child.name, child.command, child.variables, child.orphan_signal
                    )
                    child.started = now
                    child.restart_at = None
            elif child.ends and child.process.poll() == 0:
                self.children.remove(child)
            elif child.process.poll() is not None:
                _signal(child.process, signal.SIGKILL)  # Kill its leftover processes.
                if now - child.started > STEADY_SECONDS:
                    child.restarts = 0
                pause = BACKOFF[min(child.restarts, len(BACKOFF) - 1)]
                child.restarts += 1
                child.restart_at = now + pause
                self.say(
                    f"{child.name} ended ({_ending(child.process)}), restarting in "
                    f"{pause} s. {self.logs / child.name}.log has its last output."
                )

    def stop(self) -> None:
        """Stop all children, the last started first, and all their processes."""
        for child in reversed(self.children):
            _signal(child.process, signal.SIGTERM, leader_only=True)
        deadline = time.monotonic() + self.stop_seconds
        for child in reversed(self.children):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.1, deadline - time.monotonic()))
            _signal(child.process, signal.SIGKILL)
            child.process.wait()
        self.children.clear()

    def _spawn(
        self, name: str, command: Sequence[str], variables: Mapping[str, str], orphan_signal: int
    ) -> subprocess.Popen[bytes]:
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own commands
                command,
                cwd=ROOT,
                env={**self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(orphan_signal),
            )

    def _log_tail(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines()[-12:]
        return "\n".join([f"Last output, from {path}:", *(f"  {name} | {line}" for line in lines)])


def _signal(process: subprocess.Popen[bytes], signum: int, leader_only: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if leader_only:
            process.send_signal(signum)
        else:
            os.killpg(process.pid, signum)


def _ending(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
