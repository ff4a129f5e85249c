"""Throw-away servers that keep running between calls of `./run test`.

A separate process owns the servers, because servers stop with the process that started them. The
owner ends after `IDLE_SECONDS` without use by a command, or on SIGTERM (`./run test --stop`). Then
it removes the folder with all data. Only one command at a time uses the servers, because tests
empty databases and Redis.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Final

from backoffice.devtools import embedded
from backoffice.devtools.embedded import ownership, processes
from backoffice.devtools.embedded.places import ROOT, ServersError, account, make_home

IDLE_SECONDS: Final = 3600
MODULE: Final = "backoffice.devtools.embedded.background"
CHECK_SECONDS: Final = 5
"""Seconds between the checks of the owner for use by a command."""


class _Stop(BaseException):
    """SIGTERM was received."""


@contextlib.contextmanager
def background_servers(base: Path) -> Iterator[embedded.Servers | None]:
    """Provide servers in `base`, started if necessary; None while another command uses them.

    Raises ServersError when they do not start.
    """
    base.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(base).open("a") as lock:
        if not _try_lock(lock):
            yield None
            return
        if _running_version(base) not in (None, _version()):
            stop(base)
        if not _owner(base):
            _start_owner(base)
        addresses = ownership.await_addresses(base)
        try:
            yield embedded.Servers(addresses["database_url"], addresses["redis_url"], True)
        finally:
            os.utime(lock.name)


def stop(base: Path) -> bool:
    """Stop the servers in `base` and remove it; return False when none run there."""
    pid = _owner(base)
    if not pid:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 2 * processes.STOP_SECONDS
    while _owner(base):
        if time.monotonic() > deadline:
            raise ServersError(f"Process {pid}, which runs the test servers, does not stop.")
        time.sleep(0.05)
    return True


def own(base: Path, idle_seconds: float = IDLE_SECONDS) -> None:
    """Run the servers of `base` until they are idle for too long, or SIGTERM is received."""

    def on_sigterm(signum: int, frame: FrameType | None) -> None:
        raise _Stop

    signal.signal(signal.SIGTERM, on_sigterm)
    with _lock_file(base).open("a") as lock, contextlib.suppress(_Stop):
        try:
            _run_until_idle(base, lock, idle_seconds)
        finally:
            # After an idle period the lock is held during the removal. A command that starts now
            # uses new throw-away servers.
            shutil.rmtree(base, ignore_errors=True)


def _run_until_idle(base: Path, lock: IO[str], idle_seconds: float) -> None:
    make_home(base, account())
    (base / "version").write_text(_version())
    with embedded.servers(base, durable=False, borrow=False):
        os.utime(lock.name)
        (base / "owner").write_text(str(os.getpid()))
        while True:
            time.sleep(min(CHECK_SECONDS, idle_seconds))
            if _try_lock(lock):
                if time.time() - os.stat(lock.name).st_mtime > idle_seconds:
                    return
                fcntl.flock(lock, fcntl.LOCK_UN)


def _lock_file(base: Path) -> Path:
    """Return the lock file of `base`, locked by the command that uses the servers.

    Its modification time is that of the latest use. It is next to `base`, not inside, because
    `base` is deleted and created again.
    """
    return base.with_name(f"{base.name}.in-use")


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start_owner(base: Path) -> None:
    # Neither variable may name configured servers.
    server_variables = ("DATABASE_URL", "REDIS_URL")
    environment = {
        name: value for name, value in os.environ.items() if name not in server_variables
    }
    make_home(base, account())
    log = base / "log" / "owner.log"
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", MODULE, str(base)],
            cwd=ROOT,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    processes.await_ready(process, lambda: bool(_owner(base)), "The test servers", log)


def _owner(base: Path) -> int:
    """Return the process id of the owner, or 0 when there is none."""
    try:
        pid = int((base / "owner").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return 0
    return pid if MODULE.encode() in command else 0


def _running_version(base: Path) -> str | None:
    """Return the version of the servers that run in `base`; None when none run."""
    return (base / "version").read_text() if _owner(base) else None


def _version() -> str:
    """Return a hash of the server packages and of the code that starts them."""
    folder = ROOT / "backoffice" / "devtools" / "embedded"
    sources = (*sorted(folder.glob("*.py")), folder / "requirements.lock")
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


if __name__ == "__main__":
    own(Path(sys.argv[1]), *(float(word) for word in sys.argv[2:]))
