"""A PostgreSQL of a test's own, that can be stopped and started again at the same address."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from backoffice.devtools.embedded.places import account
from tests.sync.house import ROOT

_HOLD = """
import sys
from backoffice.devtools.embedded import throwaway_servers
with throwaway_servers(durable=True) as servers:
    print(servers.database_url, servers.redis_url, flush=True)
    sys.stdin.read()
"""


@dataclass
class Cluster:
    """`stop` as an administrator would (`fast`), or as a power cut (`immediate`)."""

    database_url: str = field(repr=False)
    redis_url: str
    command: list[str] = field(default_factory=list)
    folder: str = ""
    pid: int = 0
    process: subprocess.Popen[bytes] | None = None

    def find(self) -> None:
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(
                "SELECT current_setting('data_directory'),"
                " split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::int"
            ).fetchone()
        assert row is not None
        self.pid = row[1]
        self.command = Path(f"/proc/{self.pid}/cmdline").read_text().rstrip("\0").split("\0")
        self.folder = os.readlink(f"/proc/{self.pid}/cwd")

    def stop(self, how: int = signal.SIGINT) -> None:
        self.find()
        os.kill(self.pid, how)
        until = time.monotonic() + 20
        while _alive(self.pid):
            if self.process is not None:
                self.process.poll()
            assert time.monotonic() < until, "PostgreSQL does not stop"
            time.sleep(0.02)

    def start(self) -> None:
        """Returns when it takes connections."""
        who = account()
        as_whom = {"user": who.uid, "group": who.gid, "extra_groups": []} if who else {}
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
            **as_whom,  # type: ignore[call-overload]
        )
        until = time.monotonic() + 30
        while True:
            try:
                with psycopg.connect(self.database_url, connect_timeout=2):
                    return
            except psycopg.OperationalError:
                assert time.monotonic() < until, "PostgreSQL does not start"
                time.sleep(0.05)


def _alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def own_cluster() -> Iterator[Cluster]:
    """PostgreSQL and Redis of one test, gone with everything in them at the end."""
    kept = {k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    keeper = subprocess.Popen(
        [sys.executable, "-c", _HOLD],
        cwd=ROOT,
        env={**kept, "LOCAL": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    cluster = None
    try:
        words = keeper.stdout.readline().decode().split()
        assert len(words) == 2, "the servers did not start"
        cluster = Cluster(words[0], words[1])
        cluster.find()
        yield cluster
    finally:
        if cluster is not None and cluster.process is not None and cluster.process.poll() is None:
            cluster.process.send_signal(signal.SIGQUIT)
            cluster.process.wait(20)
        keeper.stdin.close()
        keeper.wait(60)
