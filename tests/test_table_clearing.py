"""Tables are cleared between tests while other processes still write to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.databases import connect_separately
from tests.table_clearing import lock_statement
from tests.waiting import wait_until

FIRST, SECOND = "test_clearing_first", "test_clearing_second"


@pytest.fixture
def two_tables(transactional_db: None) -> Iterator[None]:
    with connect_separately() as setup:
        for table in (FIRST, SECOND):
            setup.execute(f"CREATE TABLE {table} (value int)".encode())
    yield
    with connect_separately() as cleanup:
        cleanup.execute(f"DROP TABLE {FIRST}, {SECOND}".encode())


def test_clearing_does_not_deadlock_with_a_writer(two_tables: None) -> None:
    """The writer uses the second table and then the first; clearing names the first before."""
    with (
        connect_separately() as writer,
        connect_separately() as clearing,
        connect_separately() as observer,
    ):
        writer.execute(f"INSERT INTO {SECOND} VALUES (1)".encode())
        thread = threading.Thread(
            target=lambda: clearing.execute(lock_statement([FIRST, SECOND]).encode())
        )
        thread.start()
        try:
            pid = clearing.info.backend_pid
            wait_until(lambda: _waits(observer, pid), 30, "clearing waits for the writer")
            writer.execute(f"INSERT INTO {FIRST} VALUES (1)".encode())
            writer.commit()
        finally:
            thread.join()
        held = observer.execute(
            "SELECT relation::regclass::text FROM pg_locks WHERE pid = %s"
            " AND mode = 'ExclusiveLock' AND relation IS NOT NULL",
            [pid],
        )
        assert {table for (table,) in held} == {FIRST, SECOND}


def _waits(observer: psycopg.Connection, pid: int) -> bool:
    row = observer.execute(
        "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s AND state = 'active'", [pid]
    ).fetchone()
    observer.rollback()
    return row is not None and row[0] in ("Lock", "Timeout")
