"""Migrations run while people work: they wait for locks only briefly and finish in the end.

The migrations of Django's admin in `migrations/` stand in for those of a later release.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import Settings

from backoffice.management.commands import migrate
from tests.outbox.workers import environment
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RETRY_MESSAGE = "A table is in use; trying again"
COUNT_LOG_ENTRIES = "SELECT count(*) FROM django_admin_log"
SELECT_INDEX_VALIDITY = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'later_index'::regclass"


@pytest.fixture(autouse=True)
def later_release_migrations(settings: Settings) -> Iterator[None]:
    settings.MIGRATION_MODULES = {"admin": "tests.operations.migrations"}
    yield
    run_migrate("0003")


def run_migrate(*target: str, **options: Any) -> None:
    call_command("migrate", "admin", *target, verbosity=0, pause=0.2, **options)


def migrate_in_thread() -> None:
    """Migrate, and close the connection of the thread: an open one keeps the database."""
    try:
        run_migrate()
    finally:
        connection.close()


def run_query(statement: str) -> Any:
    with psycopg.connect(environment()["DATABASE_URL"], autocommit=True) as other:
        found = other.execute(statement.encode())
        return found.fetchone() if found.description else None


def has_later_column() -> bool:
    found = run_query(
        "SELECT count(*) FROM pg_attribute"
        " WHERE attrelid = 'django_admin_log'::regclass AND attname = 'later'"
    )
    return bool(found[0])


def test_readers_do_not_wait_behind_waiting_migration() -> None:
    """G1: one transaction reads the table for a long time.

    Other readers go on, and then the migration succeeds.
    """
    wait_times: list[float] = []
    output = io.StringIO()
    url = environment()["DATABASE_URL"]
    stop_event = threading.Event()

    def read() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            while not stop_event.is_set():
                started_at = time.monotonic()
                other.execute(COUNT_LOG_ENTRIES)
                wait_times.append(time.monotonic() - started_at)
                time.sleep(0.01)

    def release_lock(reader: psycopg.Connection) -> None:
        """Release the table once the migration has given up a first time."""
        while not stop_event.is_set() and RETRY_MESSAGE not in output.getvalue():
            time.sleep(0.05)
        time.sleep(0.5)
        reader.rollback()

    with psycopg.connect(url) as reader:
        reader.execute(COUNT_LOG_ENTRIES)
        traffic = [
            threading.Thread(target=read),
            threading.Thread(target=release_lock, args=(reader,)),
        ]
        for thread in traffic:
            thread.start()
        try:
            run_migrate(stderr=output, lock_timeout="500ms")
        finally:
            stop_event.set()
            for thread in traffic:
                thread.join()
    assert has_later_column()
    assert RETRY_MESSAGE in output.getvalue()
    assert 0.3 < max(wait_times) < 5, "readers wait for one try at most"
    assert run_query(SELECT_INDEX_VALIDITY)[0]


def test_table_that_stays_locked_is_reported() -> None:
    with psycopg.connect(environment()["DATABASE_URL"]) as reader:
        reader.execute(COUNT_LOG_ENTRIES)
        with pytest.raises(CommandError, match="A table stayed locked through 2 tries of 50ms"):
            run_migrate(stderr=io.StringIO(), lock_timeout="50ms", tries=2)
    assert not has_later_column()


def test_concurrent_index_waits_for_long_reader() -> None:
    """It waits for transactions that may need the old state; no other statement waits for it."""
    run_migrate("0004")
    with psycopg.connect(environment()["DATABASE_URL"]) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(COUNT_LOG_ENTRIES)
        threading.Timer(3, reader.rollback).start()
        started_at = time.monotonic()
        run_migrate()
        assert time.monotonic() - started_at > 2.2, "longer than LOCK_TIMEOUT"


def test_invalid_index_is_removed_and_rebuilt() -> None:
    run_migrate("0004")
    run_query("CREATE INDEX later_index ON django_admin_log (later)")
    run_query("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'later_index'::regclass")
    run_migrate()
    assert run_query(SELECT_INDEX_VALIDITY)[0]


LOCK_TRIES = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND query LIKE 'SELECT pg_try_advisory_lock%' AND pid <> pg_backend_pid()"
)
"""Counts connections whose latest statement tried to take an advisory lock."""


def test_second_migration_waits_for_first() -> None:
    with psycopg.connect(environment()["DATABASE_URL"], autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [migrate.ONE_AT_A_TIME])
        thread = threading.Thread(target=migrate_in_thread)
        thread.start()
        try:
            wait_until(lambda: run_query(LOCK_TRIES)[0], 60, "it tries to take the lock")
            assert not has_later_column()
        finally:
            other.execute("SELECT pg_advisory_unlock(%s)", [migrate.ONE_AT_A_TIME])
            thread.join()
    assert has_later_column()


def test_two_concurrent_migrations_do_not_deadlock() -> None:
    """Of two migrations started at once, the second must hold no lock that the first waits for."""
    begin = threading.Barrier(2)
    outcomes: list[str] = []

    def migrate_in_thread() -> None:
        begin.wait(20)
        try:
            run_migrate()
            outcomes.append("done")
        except Exception as error:
            outcomes.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=migrate_in_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == ["done", "done"]


def test_tables_of_an_earlier_state_are_refused() -> None:
    run_query(
        "INSERT INTO django_migrations (app, name, applied)"
        " VALUES ('backoffice', '0001_initial', now())"
    )
    try:
        with pytest.raises(CommandError, match=r"\./run demo --anew"):
            run_migrate("0004")
        assert not has_later_column()
    finally:
        run_query("DELETE FROM django_migrations WHERE app = 'backoffice'")


def test_migrate_refuses_tables_of_unknown_version() -> None:
    """Tables of a later release are accepted: going back to the previous one adds nothing."""
    run_query(
        "INSERT INTO django_migrations (app, name, applied)"
        " VALUES ('labs', '0999_of_tomorrow', now())"
    )
    run_query(
        "UPDATE django_migrations SET app = 'elsewhere' WHERE app = 'labs' AND name LIKE '0001%'"
    )
    try:
        with pytest.raises(CommandError, match=r"labs\.0999_of_tomorrow"):
            run_migrate("0004")
        assert not has_later_column()
        run_query("UPDATE django_migrations SET app = 'labs' WHERE app = 'elsewhere'")
        run_migrate("0004")
        assert has_later_column()
    finally:
        run_query("UPDATE django_migrations SET app = 'labs' WHERE app = 'elsewhere'")
        run_query("DELETE FROM django_migrations WHERE name = '0999_of_tomorrow'")
