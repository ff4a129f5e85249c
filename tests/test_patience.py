"""Statements of pages that take too long are given up; those of workers are not."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection, connections
from django.test import Client
from pytest_django import Settings

from backoffice.core import statement_limits
from tests.api.rows import staff
from tests.databases import drop, migrated_house

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def web(settings: Settings) -> Iterator[Client]:
    """A web process, logged in, whose statements may take a second."""
    settings.PAGE_STATEMENT_SECONDS = 1
    client = Client(raise_request_exception=False)
    client.force_login(staff("administrator"))
    given = connections.settings["default"]
    before = copy.deepcopy(given["SESSION_SETTINGS"])
    connection.close()
    statement_limits.limit_statements()
    try:
        yield client
    finally:
        connection.close()
        given["SESSION_SETTINGS"].clear()
        given["SESSION_SETTINGS"].update(before)


@contextlib.contextmanager
def slow(table: str) -> Iterator[None]:
    """Every statement that reads the table waits."""
    given = connection.get_connection_params()
    keys = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{key: given[key] for key in keys if key in given}) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
        other.rollback()


def limit() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchone()[0])


def test_a_page_gives_up_says_so_and_the_next_one_works(web: Client) -> None:
    with slow("patients_patient"):
        answer = web.get("/patients/")
        api = web.get("/api/patients/")
    page = answer.content.decode()
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "30"
    assert "This took too long" in page and "does not answer" not in page
    assert api.status_code == 503 and api.json()["code"] == "unavailable"
    assert "too long" in api.json()["message"]
    assert web.get("/patients/").status_code == 200


def test_what_is_no_web_process_has_all_the_time() -> None:
    assert limit() == "0"


def test_a_web_process_is_limited_from_its_start() -> None:
    """By the module the server starts, without a statement."""
    ask = (
        "from backoffice import wsgi; from django.db import connection as c;"
        "cursor = c.cursor(); cursor.execute('SHOW statement_timeout'); print(cursor.fetchone()[0])"
    )
    url = migrated_house(os.environ["DATABASE_URL"])
    try:
        done = subprocess.run(
            [sys.executable, "-c", ask],
            env={**os.environ, "DATABASE_URL": url, "LOCAL": "1", "PAGE_STATEMENT_SECONDS": "7"},
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        drop(url)
    assert done.stdout.split()[-1] == "7s"
