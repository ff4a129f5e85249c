"""The environment of a running demo, in a file for the other commands of `./run`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path


def write_running_environment(base: Path, environment: Mapping[str, str]) -> None:
    """Write the environment for `./run manage` to a file that only its owner can read."""
    names = ("DATABASE_URL", "REDIS_URL", "LOCAL", "PORT", "SANDBOX_PORT", "SERVICE_BASE_URL")
    published = {name: environment[name] for name in names if name in environment}
    base.mkdir(mode=0o711, parents=True, exist_ok=True)  # Missing with configured servers.
    path = base / "running.json"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps({"pid": os.getpid(), "environment": published}))


def remove_running_environment(base: Path) -> None:
    """Remove the environment file if this process wrote it."""
    path = base / "running.json"
    with contextlib.suppress(OSError, ValueError, KeyError):
        if json.loads(path.read_text())["pid"] == os.getpid():
            path.unlink()


def running_environment(base: Path) -> dict[str, str]:
    """Return the environment of a running demo of this folder; empty when none runs."""
    try:
        running = json.loads((base / "running.json").read_text())
        os.kill(running["pid"], 0)
    except (OSError, ValueError, KeyError):
        return {}
    if running["pid"] == os.getpid() or not _is_launcher(running["pid"]):
        return {}  # It was killed, and its id was reused; in a container often by this process.
    return dict(running["environment"])


def _is_launcher(pid: int) -> bool:
    """Return whether the process is still a launcher, where the system can tell."""
    path = Path(f"/proc/{pid}/cmdline")
    try:
        return b"backoffice.devtools.launcher" in path.read_bytes()
    except OSError:
        return not Path("/proc/self").exists()
