"""Ownership of the servers in a base folder by one process, and the file with their addresses."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from backoffice.devtools.embedded import postgres
from backoffice.devtools.embedded.places import ServersError
from backoffice.devtools.embedded.processes import READY_SECONDS


@contextlib.contextmanager
def claim(base: Path) -> Iterator[bool]:
    """Yield True in the one process that may run servers in `base`.

    The kernel releases the lock when the process ends.
    """
    with (base / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextlib.contextmanager
def publish_addresses(base: Path, addresses: Mapping[str, str]) -> Iterator[None]:
    """Write `database_url` and `redis_url` to a file for other commands; remove it at the end."""
    path = base / "servers.json"
    partial = base / "servers.json.new"
    partial.touch(mode=0o600)
    partial.write_text(json.dumps({"pid": os.getpid(), **addresses}))
    partial.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read(base: Path) -> dict[str, str]:
    """Return the addresses in the file; empty when the process that wrote them has ended."""
    try:
        state = json.loads((base / "servers.json").read_text())
        os.kill(state.pop("pid"), 0)
    except (OSError, ValueError, KeyError):
        return {}
    return dict(state)


def await_addresses(base: Path) -> dict[str, str]:
    """Wait for the addresses of the process that owns `base`, and return them.

    That process may be starting or stopping.
    """
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        addresses = read(base)
        database_url = addresses.get("database_url")
        if addresses and (not database_url or postgres.answers(database_url)):
            return addresses
        time.sleep(0.1)
    raise ServersError("Another command is starting or stopping the servers and does not finish.")
