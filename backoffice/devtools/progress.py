"""Progress of the first sync, for the terminal of `./run demo`, read from the database."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import psycopg

from backoffice.devtools.terminal import GREEN, colored

LISTS: Final = (
    *("providers", "users", "labs", "markers", "lab-tests", "lab-accounts"),
    *("physicians", "orders", "pulls", "unmatched"),
)
LINE_SECONDS: Final = 5
"""Seconds between lines on a terminal where a line cannot be overwritten."""

MAX_LOOKUPS_LEFT: Final = 100
"""The most lookups that may be left when staff can start to work.

New orders keep adding some.
"""

RUNS: Final = """
    SELECT resource, state, fetched, total,
        EXISTS (
            SELECT FROM sync_syncrun AS whole
            WHERE whole.resource = latest.resource AND whole."full" AND whole.state = 'done'
        )
    FROM (
        SELECT DISTINCT ON (resource) resource, state, fetched, total, created_at
        FROM sync_syncrun WHERE "full" ORDER BY resource, created_at DESC
    ) AS latest
    ORDER BY created_at
"""
LOOKUPS: Final = """
    SELECT count(*) FILTER (WHERE looked_at IS NOT NULL),
        count(*) FILTER (WHERE looked_at IS NULL AND due_at <= now()),
        count(*) FILTER (WHERE looked_at IS NULL AND error <> '')
    FROM sync_lookup
"""


@dataclass(frozen=True)
class Run:
    """The latest sync run of a whole list; `complete` if any such run has finished."""

    resource: str
    state: str
    fetched: int
    total: int | None
    complete: bool

    def __str__(self) -> str:
        if self.state == "due":
            return f"{self.resource} waits"
        # A list that grows during the sync may have more rows than its first page announced.
        expected = self.total if self.total and self.total >= self.fetched else None
        return f"{self.resource} {self.fetched:,}" + (f" of {expected:,}" if expected else "")


@dataclass(frozen=True)
class SyncProgress:
    """Progress of the first sync: runs, and lookups that are done, open, and failing."""

    runs: list[Run]
    looked_up: int
    left: int
    failing: int

    @classmethod
    def read(cls, database_url: str) -> SyncProgress:
        """Read the progress; raises psycopg.Error, also before the tables exist."""
        with psycopg.connect(database_url, connect_timeout=2) as connection:
            return cls.on(connection)

    @classmethod
    def on(cls, connection: psycopg.Connection) -> SyncProgress:
        runs = [Run(*row) for row in connection.execute(RUNS).fetchall()]
        return cls(runs, *(connection.execute(LOOKUPS).fetchone() or (0, 0, 0)))

    @property
    def rows(self) -> int:
        return sum(run.fetched for run in self.runs) + self.looked_up

    @property
    def over(self) -> bool:
        """Return whether every list was read to its end once and no lookup is left."""
        return not self.left and {run.resource for run in self.runs if run.complete} >= set(LISTS)

    @property
    def nearly_over(self) -> bool:
        """Return whether all orders are stored, and nearly all of their results."""
        orders = any(run.complete for run in self.runs if run.resource == "orders")
        return orders and self.left < MAX_LOOKUPS_LEFT

    @property
    def parts(self) -> list[str]:
        """Return the parts in progress, as text for the terminal."""
        open_runs = [str(run) for run in self.runs if run.state in ("due", "running")]
        failed = [run.resource for run in self.runs if run.state == "failed"]
        return [
            *open_runs[:3],
            *([f"lookups left: {self.left:,}"] if self.left else []),
            *([f"failed: {', '.join(failed)}, see System"] if failed else []),
        ]


@dataclass
class FirstSync:
    """Display of the progress; call `show` about once a second.

    It prints nothing after the first sync.
    """

    database_url: str = field(repr=False)
    over: bool = False
    nearly_over: bool = False
    name: str = "First sync"
    started: float = 0
    rows_before: int = 0
    next_read_at: float = 0
    last_line: str = ""
    last_line_at: float = 0
    width: int = 0

    def __post_init__(self) -> None:
        """Read the progress before any worker runs.

        An earlier start may have filled the mirror.
        """
        with suppress(psycopg.Error):
            progress = SyncProgress.read(self.database_url)
            self.over, self.rows_before = progress.over, progress.rows
            self.nearly_over = progress.nearly_over
            if progress.rows:
                self.name = "Catching up"

    def show(self, say: Callable[[str], None]) -> None:
        before = time.monotonic()
        if self.over or before < self.next_read_at:
            return
        self.started = self.started or before
        try:
            progress = SyncProgress.read(self.database_url)
        except psycopg.Error:
            return
        now = time.monotonic()
        if progress.nearly_over and not self.nearly_over:
            self.nearly_over = True
            self._clear()
            say(colored("Ready: all pages have their data.", GREEN))
        # A count of a million lookups is slow: spend at most a twentieth of the time on it.
        self.next_read_at = now + 20 * (now - before)
        seconds = now - self.started
        rows = progress.rows - self.rows_before
        if progress.over:
            self.over = True
            self._clear()
            ending = (
                f"; failing lookups: {progress.failing:,}, see System" if progress.failing else ""
            )
            say(f"{self.name}: {rows:,} rows in {seconds:.0f} s{ending}")
        elif progress.parts:
            rate = rows / max(1.0, seconds)
            parts = [f"{self.name}: {rows:,} rows, {rate:,.0f}/s", *progress.parts]
            self._line(" · ".join(parts), now)

    def _line(self, text: str, now: float) -> None:
        if sys.stdout.isatty():
            print("\r" + text.ljust(self.width), end="", flush=True)
            self.width = len(text)
        elif text != self.last_line and now - self.last_line_at >= LINE_SECONDS:
            self.last_line, self.last_line_at = text, now
            print(text, flush=True)

    def _clear(self) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", flush=True)
