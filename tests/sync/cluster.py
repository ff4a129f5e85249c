"""A PostgreSQL server for one test. It can be stopped and started again at the same address."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from backoffice.devtools.embedded.places import account
from tests.sync.back_office import ROOT
from tests.waiting import wait_until

_SERVERS_PROGRAM = """
import sys
from backoffice.devtools.embedded import throwaway_servers
with throwaway_servers(durable=True) as servers:
    print(servers.database_url, servers.redis_url, flush=True)
    sys.stdin.read()
"""


@dataclass
class Cluster:
    """PostgreSQL and Redis of one test.

    `stop` with SIGINT is a fast shutdown, as by an administrator. SIGQUIT is an immediate shutdown,
    as by a power cut.
    """

    database_url: str = field(repr=False)
    redis_url: str
    command: list[str] = field(default_factory=list)
    folder: str = ""
    pid: int = 0
    process: subprocess.Popen[bytes] | None = None

    def read_process(self) -> None:
        """Read process id, command line and working directory of the running server."""
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(
                "SELECT current_setting('data_directory'),"
                " split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"
            ).fetchone()
        assert row is not None
        self.pid = row[1]
        self.command = Path(f"/proc/{self.pid}/cmdline").read_text().rstrip("\0").split("\0")
        self.folder = os.readlink(f"/proc/{self.pid}/cwd")

    def stop(self, signal_number: int = signal.SIGINT) -> None:
        self.read_process()
        os.kill(self.pid, signal_number)
        wait_until(self._has_stopped, 60, "PostgreSQL stops", every=0.02)

    def _has_stopped(self) -> bool:
        if self.process is not None:
            self.process.poll()
        return not _is_running(self.pid)

    def _accepts_connections(self) -> bool:
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(self.database_url, connect_timeout=2),
        ):
            return True
        return False

    def start(self) -> None:
        """Start PostgreSQL and return when it accepts connections."""
        user = account()
        credentials = {"user": user.uid, "group": user.gid, "extra_groups": []} if user else {}
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
            **credentials,  # type: ignore[call-overload]
        )
        wait_until(self._accepts_connections, 60, "PostgreSQL starts")


def _is_running(pid: int) -> bool:
    """Return whether the process runs. A zombie does not count as running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def own_cluster() -> Iterator[Cluster]:
    """Run PostgreSQL and Redis for one test, and delete them with their data at the end."""
    environment = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    servers = subprocess.Popen(
        [sys.executable, "-c", _SERVERS_PROGRAM],
        cwd=ROOT,
        env={**environment, "LOCAL": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert servers.stdin is not None and servers.stdout is not None
    cluster = None
    try:
        urls = servers.stdout.readline().decode().split()
        assert len(urls) == 2, "the servers did not start"
        cluster = Cluster(urls[0], urls[1])
        cluster.read_process()
        yield cluster
    finally:
        if cluster is not None and cluster.process is not None and cluster.process.poll() is None:
            cluster.process.send_signal(signal.SIGQUIT)
            cluster.process.wait(20)
        servers.stdin.close()
        servers.wait(60)
