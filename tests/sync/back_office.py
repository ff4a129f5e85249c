"""A back office under test: its own database, and its own processes started from the outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from backoffice.devtools.embedded import dies_with_parent
from tests import databases

ROOT = Path(__file__).resolve().parents[2]
MIRRORED = ("patients_%", "labs_%", "orders_%", "wearables_%")
LEASE_SECONDS = "2"
RUN_SECONDS = 420
SYNC = ("manage.py", "sync", "--skip-checks")
"""Django's checks of its own settings take as long as all else of a start."""


@dataclass
class BackOffice:
    """`settings` are environment variables of every process it starts."""

    database_url: str = field(repr=False)
    service_url: str
    log: Path
    settings: dict[str, str] = field(default_factory=dict)

    def query(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, connect_timeout=5) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, parameters: Any = None) -> Any:
        return self.query(statement, parameters)[0][0]

    def environment(self, **settings: str) -> dict[str, str]:
        return {
            **os.environ,
            "LOCAL": "1",
            "DJANGO_SETTINGS_MODULE": "backoffice.settings",
            "DATABASE_URL": self.database_url,
            "SERVICE_BASE_URL": self.service_url,
            "MANAGEMENT_BASE_URL": self.service_url,
            "SYNC_LEASE_SECONDS": LEASE_SECONDS,
            **self.settings,
            **settings,
        }

    def start(self, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """A process of the back office, in a group of its own; what it says goes to the log."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=self.environment(**settings),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )

    def manage(self, *command: str, **settings: str) -> None:
        """`manage.py COMMAND` to its end; it must succeed."""
        self._run("manage.py", *command, **settings)

    def sync(self, *words: str, **settings: str) -> None:
        self._run(*SYNC, *words, **settings)

    def _run(self, *command: str, **settings: str) -> None:
        process = self.start(*command, **settings)
        try:
            assert process.wait(RUN_SECONDS) == 0, f"{command} failed:\n{self.said()}"
        finally:
            end(process)

    def said(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines[-400:] if "backoffice.service" not in line)[-4000:]

    def rows(self) -> dict[str, tuple[int, str]]:
        """Per mirrored table: how many rows, and a digest of where and by which transaction each
        was written. A row that was rewritten, even with equal values, changes it."""
        tables = self.query(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            " AND tablename LIKE ANY(%s) ORDER BY 1",
            [list(MIRRORED)],
        )
        assert len(tables) > 15, tables
        found = {}
        for (table,) in tables:
            found[table] = self.query(
                "SELECT count(*), coalesce(md5(string_agg(ctid::text || xmin::text, ','"
                f" ORDER BY ctid)), '') FROM \"{table}\""
            )[0]
        return found

    def expire_leases(self) -> None:
        """End the leases of all runs and lookups, as time would."""
        for table in ("sync_syncrun", "sync_lookup"):
            self.query(f"UPDATE {table} SET lease_until = now() WHERE lease_until > now()")

    def due(self) -> int:
        return int(self.value("SELECT count(*) FROM sync_lookup WHERE due_at <= now()"))


class BackOffices:
    """Makes back offices, each with a new database; `staffed`: with the users of the demo."""

    def __init__(self, server: str, logs: Path, *, staffed: bool = False) -> None:
        self.server, self.logs = server, logs
        self.database = databases.staffed_database if staffed else databases.migrated_database
        self.made: list[str] = []

    def build(self, service_url: str, **settings: str) -> BackOffice:
        self.made.append(self.database(self.server))
        log = self.logs / f"back-office-{len(self.made)}.log"
        return BackOffice(self.made[-1], service_url, log, settings)

    def close(self) -> None:
        for database_url in self.made:
            databases.drop(database_url)


def end(process: subprocess.Popen[bytes]) -> None:
    """The process and its children are gone after this."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


@contextlib.contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        end(process)
