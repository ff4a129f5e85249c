"""Migrations while people work: they wait for no lock for long, and come through in the end.

In the place of a later release stand two migrations of Django's admin: `migrations/`.
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

pytestmark = pytest.mark.django_db(transaction=True)

AGAIN = "A table is in use; trying again"
READ = "SELECT count(*) FROM django_admin_log"


@pytest.fixture(autouse=True)
def later(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.MIGRATION_MODULES = {"admin": "tests.operations.migrations"}
    monkeypatch.setattr(migrate, "PAUSE", 0.2)
    yield
    migrated("0003")


def migrated(*target: str, stderr: Any = None) -> None:
    call_command("migrate", "admin", *target, verbosity=0, stderr=stderr)


def asked(statement: str) -> Any:
    with psycopg.connect(environment()["DATABASE_URL"], autocommit=True) as other:
        found = other.execute(statement.encode())
        return found.fetchone() if found.description else None


def has_column() -> bool:
    found = asked(
        "SELECT count(*) FROM pg_attribute"
        " WHERE attrelid = 'django_admin_log'::regclass AND attname = 'later'"
    )
    return bool(found[0])


def test_nobody_waits_behind_a_migration_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: somebody reads the table for long; others go on reading; then it comes through."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "500ms")
    waited: list[float] = []
    said = io.StringIO()
    url = environment()["DATABASE_URL"]
    over = threading.Event()

    def read() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            while not over.is_set():
                begun = time.monotonic()
                other.execute(READ)
                waited.append(time.monotonic() - begun)
                time.sleep(0.01)

    def let_go(reader: psycopg.Connection) -> None:
        """Once the migration has given up a first time."""
        while not over.is_set() and AGAIN not in said.getvalue():
            time.sleep(0.05)
        time.sleep(0.5)
        reader.rollback()

    with psycopg.connect(url) as reader:
        reader.execute(READ)
        traffic = [threading.Thread(target=read), threading.Thread(target=let_go, args=(reader,))]
        for thread in traffic:
            thread.start()
        try:
            migrated(stderr=said)
        finally:
            over.set()
            for thread in traffic:
                thread.join()
    assert has_column()
    assert AGAIN in said.getvalue()
    assert 0.3 < max(waited) < 5, "readers waited for one try and no longer"
    assert asked("SELECT indisvalid FROM pg_index WHERE indexrelid = 'later_index'::regclass")[0]


def test_a_table_that_stays_locked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(migrate, "TRIES", 2)
    with psycopg.connect(environment()["DATABASE_URL"]) as reader:
        reader.execute(READ)
        with pytest.raises(CommandError, match="A table stayed locked through 2 tries of 50ms"):
            migrated(stderr=io.StringIO())
    assert not has_column()


def test_an_index_may_wait_for_a_long_reader() -> None:
    """It waits for transactions that may need the old state, and nobody waits for it."""
    migrated("0004")
    with psycopg.connect(environment()["DATABASE_URL"]) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(READ)
        threading.Timer(3, reader.rollback).start()
        begun = time.monotonic()
        migrated()
        assert time.monotonic() - begun > 2.2, "longer than LOCK_TIMEOUT"


def test_an_index_left_half_built_is_removed() -> None:
    migrated("0004")
    asked("CREATE INDEX later_index ON django_admin_log (later)")
    asked("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'later_index'::regclass")
    migrated()
    assert asked("SELECT indisvalid FROM pg_index WHERE indexrelid = 'later_index'::regclass")[0]


def test_two_at_once_wait_for_each_other() -> None:
    with psycopg.connect(environment()["DATABASE_URL"], autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [migrate.ONE_AT_A_TIME])
        thread = threading.Thread(target=migrated)
        thread.start()
        time.sleep(1)
        assert not has_column()
        other.execute("SELECT pg_advisory_unlock(%s)", [migrate.ONE_AT_A_TIME])
        thread.join(30)
    assert has_column()


def test_an_index_does_not_wait_for_who_waits_for_it() -> None:
    """Of two that are started at once, the second must hold nothing that the first waits for."""
    begin = threading.Barrier(2)
    ended: list[str] = []

    def one() -> None:
        begin.wait(20)
        try:
            migrated()
            ended.append("done")
        except Exception as error:
            ended.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ended == ["done", "done"]


def test_tables_that_another_version_made_are_refused() -> None:
    """Those of a later release are not: who goes back to the one before has nothing to add."""
    asked("INSERT INTO django_migrations (app, name, applied)"
          " VALUES ('labs', '0999_of_tomorrow', now())")  # fmt: skip
    asked("UPDATE django_migrations SET app = 'elsewhere' WHERE app = 'labs' AND name LIKE '0002%'")
    try:
        with pytest.raises(CommandError, match=r"labs\.0999_of_tomorrow"):
            migrated("0004")
        assert not has_column()
        asked("UPDATE django_migrations SET app = 'labs' WHERE app = 'elsewhere'")
        migrated("0004")
        assert has_column()
    finally:
        asked("UPDATE django_migrations SET app = 'labs' WHERE app = 'elsewhere'")
        asked("DELETE FROM django_migrations WHERE name = '0999_of_tomorrow'")
