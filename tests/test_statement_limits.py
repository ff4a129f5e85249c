"""Slow statements of pages are canceled; those of workers are not."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.test import Client
from pytest_django import Settings

from backoffice.core import statement_limits
from tests.api.rows import staff
from tests.databases import connect_separately, drop, migrated_database

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def web_client(settings: Settings) -> Iterator[Client]:
    """A signed-in client of a web process with a statement limit of one second."""
    settings.PAGE_STATEMENT_SECONDS = 1
    client = Client(raise_request_exception=False)
    client.force_login(staff("administrator"))
    database_settings = connections.settings["default"]
    before = copy.deepcopy(database_settings["SESSION_SETTINGS"])
    connection.close()
    statement_limits.limit_statements()
    try:
        yield client
    finally:
        connection.close()
        database_settings["SESSION_SETTINGS"].clear()
        database_settings["SESSION_SETTINGS"].update(before)


@contextlib.contextmanager
def lock_table(table: str) -> Iterator[None]:
    """Make every statement wait that reads the table."""
    with connect_separately() as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield
        other.rollback()


def current_limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchone()[0])


def test_slow_page_is_reported_and_next_one_works(web_client: Client) -> None:
    with lock_table("patients_patient"):
        answer = web_client.get("/patients/")
        api = web_client.get("/api/patients/")
    page = answer.content.decode()
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "30"
    assert "This took too long" in page and "not available" not in page
    assert api.status_code == 503 and api.json()["code"] == "unavailable"
    assert "too long" in api.json()["message"]
    assert web_client.get("/patients/").status_code == 200


def test_other_processes_have_no_limit() -> None:
    assert current_limit() == "0"


def test_web_process_has_limit_from_start() -> None:
    """The module that the server imports sets the limit without a statement."""
    code = (
        "from backoffice import wsgi; from django.db import connection as c;"
        "cursor = c.cursor(); cursor.execute('SHOW statement_timeout'); print(cursor.fetchone()[0])"
    )
    url = migrated_database(os.environ["DATABASE_URL"])
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "DATABASE_URL": url, "LOCAL": "1", "PAGE_STATEMENT_SECONDS": "7"},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        drop(url)
    assert done.stdout.split()[-1] == "7s"
