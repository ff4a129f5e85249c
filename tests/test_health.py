"""Health endpoints, security headers and log lines."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from backoffice.core.logs import JsonFormatter
from backoffice.operations import readiness

ROOT = Path(__file__).resolve().parent.parent
CHECK_HEALTH = """
import django; django.setup()
from django.test import Client
answer = Client().get("/health/ready", headers={"host": "localhost"})
print(answer.status_code, answer.json()["database"])
print(Client().get("/health/live", headers={"host": "localhost"}).status_code)
"""


def test_live_touches_no_server(client: Client) -> None:
    answer = client.get("/health/live")  # no database mark: a query would fail the test
    assert answer.status_code == 200
    assert answer.json() == {"status": "live"}


@pytest.mark.django_db
def test_ready_when_the_database_answers(client: Client) -> None:
    answer = client.get("/health/ready")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "database": "ok"}
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.django_db
def test_probe_after_readiness_needs_one_query(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client.get("/health/ready")
    with django_assert_num_queries(1):
        assert client.get("/health/ready").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_not_ready_before_migrations(client: Client) -> None:
    readiness.MIGRATED.clear()
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'mfa' AND name LIKE '0003%' RETURNING name"
        )
        name = cursor.fetchone()[0]
        try:
            answer = client.get("/health/ready")
        finally:
            cursor.execute(
                "INSERT INTO django_migrations (app, name, applied) VALUES ('mfa', %s, now())",
                [name],
            )
    assert answer.status_code == 503
    assert answer.json()["database"] == "migrations missing"
    assert client.get("/health/ready").status_code == 200


def test_not_ready_without_a_database() -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "backoffice.settings",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "LOCAL": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHECK_HEALTH],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["503", "unreachable", "200"]
    assert "Traceback" not in done.stderr


CHECK_PAGES = """
import django
django.setup()
from django.conf import settings
from django.test import Client
client = Client(raise_request_exception=False, headers={"host": "localhost"})
client.cookies[settings.SESSION_COOKIE_NAME] = "a" * 32
for address in ("/orders/", "/accounts/login/", "/api/orders/"):
    answer = client.get(address)
    told = "database" in answer.content.decode()
    print(answer.status_code, answer["Retry-After"], told, answer["X-Request-ID"] != "")
"""


def test_pages_report_unreachable_database() -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "backoffice.settings",
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
        "LOCAL": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHECK_PAGES],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["503 30 True True"] * 3
    assert "nobody@" not in done.stderr


@pytest.mark.django_db
def test_every_page_has_log_in_and_security_policy(client: Client) -> None:
    answer = client.get("/orders/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/accounts/login/")
    policy = client.get("/accounts/login/")["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_log_line_has_no_row_and_no_query(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test.phi")
    try:
        raise ValueError("Failing row contains (CANARYNAME)")
    except ValueError as error:
        logger.exception("could not store %s from GET /patients/?q=CANARYNAME", error)
    line = json.loads(JsonFormatter().format(caplog.records[-1]))
    assert line["error"] == "ValueError"
    assert line["frames"] == [f"tests/test_health.py:{line['frames'][0].split(':')[1]}"]
    assert "CANARYNAME" not in json.dumps(line)
    assert "from GET /…" in line["message"]
    assert "patients" not in line["message"]


def test_log_entry_stays_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test.phi").warning("said %s", 'a\r\n{"level": "info"}\x1b[2J\u2028')
    line = JsonFormatter().format(caplog.records[-1])
    assert not set(line) & set("\r\n\x1b")
    assert json.loads(line)["message"].startswith("said a\r\n{")
