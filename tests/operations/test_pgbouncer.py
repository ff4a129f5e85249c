"""Behind PgBouncer in session mode, with the settings of deploy/, all limits apply."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import psycopg
import pytest

from tests.servers import pgbouncer
from tests.sync.back_office import BackOffice, BackOffices
from tests.webhooks.sending import attempt, receiving, send
from tests.webhooks.signed import message

CONFIG = Path(__file__).resolve().parents[2] / "deploy" / "pgbouncer" / "pgbouncer.ini"
CHECK_LIMITS = """
import django; django.setup()
from django.db import OperationalError, connection, connections
from backoffice.core import prepared_queries, statement_limits
statement_limits.limit_statements()

def shown(alias, name):
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return cursor.fetchone()[0]

for alias, name, value in (
    ("default", "statement_timeout", "1s"),
    ("default", "idle_in_transaction_session_timeout", "2min"),
    ("default", "max_parallel_workers_per_gather", "0"),
    ("default", "work_mem", "16MB"),
    ("hooks", "statement_timeout", "3s"),
    ("hooks", "lock_timeout", "200ms"),
    ("hooks", "synchronous_commit", "on"),
):
    assert shown(alias, name) == value, (alias, name, shown(alias, name))
try:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")
except OperationalError as error:
    assert "statement timeout" in str(error), error
else:
    raise AssertionError("it took its time")
with prepared_queries.cursor() as cursor:
    for _ in range(3):
        cursor.execute("SELECT count(*) FROM accounts_user WHERE id = %s", [1])
"""


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    """A database, reached without PgBouncer."""
    back_offices = BackOffices(
        os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"), staffed=True
    )
    yield back_offices.build("http://127.0.0.1:9")
    back_offices.close()


@pytest.fixture(scope="module")
def pooled(direct: BackOffice) -> Iterator[BackOffice]:
    """The same database, through PgBouncer."""
    parts = urlsplit(direct.database_url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    with pgbouncer(CONFIG, direct.database_url, {user: password}) as address:
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[0]}@{address}"
        yield BackOffice(url, direct.service_url, direct.log, direct.settings)


def test_limits_apply_behind_pgbouncer(pooled: BackOffice) -> None:
    process = pooled.start("-c", CHECK_LIMITS, PAGE_STATEMENT_SECONDS="1")
    assert process.wait(60) == 0, pooled.said()


def test_pages_and_deliveries_work_behind_pgbouncer(pooled: BackOffice, direct: BackOffice) -> None:
    with receiving(pooled, workers=1) as url:
        assert httpx.get(f"{url}/health/ready", trust_env=False).status_code == 200
        attempts = [
            attempt(message("labtest.match_review.created", {"id": "x"})) for _ in range(20)
        ]
        assert {attempt_.status for attempt_ in send(url, attempts, connections=4)} == {204}
    assert direct.value("SELECT count(*) FROM webhooks_event") == 20


def test_commands_and_backups_work_behind_pgbouncer(pooled: BackOffice, tmp_path: Path) -> None:
    pooled.manage("migrate", "-v0")
    pooled.manage("backup", str(tmp_path / "backup"), REPORT_FOLDER=str(tmp_path / "reports"))
    assert [*(tmp_path / "backup").iterdir()]


def test_pgbouncer_refuses_limits_at_the_start(pooled: BackOffice) -> None:
    """PgBouncer refuses them as startup parameters, so each connection sets its own limits."""
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter"):
        psycopg.connect(pooled.database_url, options="-c statement_timeout=1000")
