"""Start a sandbox for tests and measurements, with its own process and database.

with running(users=20, orders=60) as sandbox: sandbox.control("status")
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psycopg

from backoffice.devtools.embedded import dies_with_parent, free_port
from backoffice.service import Service
from tests import databases

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
STOP_SECONDS = 10


@dataclass
class Sandbox:
    """A running sandbox: its address, its database, and its control path."""

    url: str
    database_url: str = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    as_specified: bool = False

    def control(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return the answer of `/_control/<path>`; POST when there is a body."""
        request = Request(  # noqa: S310 - our own loopback address
            f"{self.url}/_control/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
            method=method,
        )
        with urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")

    def prepare_answer(self, path: str, **answer: Any) -> None:
        """Answer the next reads of a path as `sandbox/prepared_answers.py` describes."""
        self.control("answers", {"path": path, **answer})

    def query(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Return rows of the sandbox's own database: the truth that the mirror is compared with."""
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(statement.encode(), parameters).fetchall()

    def service(self, **options: Any) -> Service:
        """Return a client of this sandbox with the development keys."""
        keys: dict[str, Any] = {
            "management_url": self.url,
            "management_key": "mg_local_sandbox",
            "management_org_id": "0d4f7c1e-0000-4000-8000-00000000c11c",
            **options,
        }
        return Service(self.url, "sk_us_local_sandbox", **keys)


SandboxFactory = Callable[..., Sandbox]


@contextlib.contextmanager
def running(
    users: int = 20,
    orders: int = 60,
    seed: int = 7,
    speed: float = 0,
    *,
    seconds: float = START_SECONDS,
    as_specified: bool = False,
    **more: str,
) -> Iterator[Sandbox]:
    """Run a sandbox during a `with`; its database is dropped afterwards.

    `as_specified` requests the forms of the specification; `more` are further options of `python -m
    sandbox`. Raises RuntimeError with the last output of the sandbox when it does not answer within
    `seconds`.
    """
    server = os.environ.get("TEST_SANDBOX_DATABASE") or os.environ["DATABASE_URL"]
    database_url = databases.migrated_sandbox(server)
    port = free_port()
    options = {"port": port, "users": users, "orders": orders, "seed": seed, "speed": speed, **more}
    command = [sys.executable, "-m", "sandbox"]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    if as_specified:
        command.append("--as-specified")
    excluded = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
    environment = {name: value for name, value in os.environ.items() if name not in excluded}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment, "SANDBOX_DATABASE_URL": database_url},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGTERM),
        )
        sandbox = Sandbox(f"http://127.0.0.1:{port}", database_url, process, as_specified)
        try:
            if not _is_ready(sandbox, seconds):
                log.seek(0)
                output = log.read().decode(errors="replace")[-3000:]
                raise RuntimeError(f"The sandbox did not start:\n{output}")
            yield sandbox
        finally:
            _end(process)
            databases.drop(database_url)


def _is_ready(sandbox: Sandbox, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and sandbox.process.poll() is None:
        with contextlib.suppress(OSError):
            sandbox.control("status")
            return True
        time.sleep(0.1)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
