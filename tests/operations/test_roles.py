"""The product runs as roles that can neither create tables nor change audit records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.sandboxes import Sandbox
from tests.sync.back_office import BackOffice, BackOffices

PREFIX = f"bo_test_{os.getpid()}"
PASSWORD = "made-up-password"
CHECK_PAGES = """
import django; django.setup()
from django.test import Client
from backoffice.accounts.models import User
client = Client(headers={"host": "localhost"})
client.force_login(User.objects.get(username="clinician"))
for address in ("/today/", "/orders/", "/patients/", "/results/", "/exceptions/", "/health/ready"):
    answer = client.get(address)
    assert answer.status_code == 200, (address, answer.status_code, answer.content[-300:])
"""
CHECK_SEALS = """
import django; django.setup()
from backoffice.audit import retention, seals, verification
from backoffice.audit.models import AuditCheck, AuditSeal
from django.utils import timezone
from datetime import timedelta
seals.seal(now=timezone.now() + timedelta(hours=1))
assert seals.flush_index_pending_lists() > 0, "what the indexes put off is done"
assert seals.flush_index_pending_lists() == 0
AuditCheck.objects.create()
assert verification.run_due_check() is not None
retention.remove_expired()
assert AuditSeal.objects.exists()
"""
CHECK_PARTITIONS = """
import django; django.setup()
from datetime import date
from django.db import connection
from patients.wearables import partitions
with connection.cursor() as cursor:
    partitions.ensure(cursor, [date(2001, 1, 1)])
    cursor.execute("SELECT count(*) FROM wearables_chunk_2001_01")
assert date(2001, 1, 1) in partitions.drop_before(date(2002, 1, 1))
"""


CHECK_LIMIT = """
import django; django.setup()
import os
from django.db import connection
from backoffice.core import statement_limits
statement_limits.limit_statements()
with connection.cursor() as cursor:
    cursor.execute("SHOW statement_timeout")
    found = cursor.fetchone()[0]
assert found == os.environ["EXPECTED"], found
"""


def as_role(back_office: BackOffice, kind: str) -> BackOffice:
    """Return the same database with processes that sign in as this role."""
    parts = urlsplit(back_office.database_url)
    server_address = parts.netloc.rpartition("@")[2]
    netloc = f"{PREFIX}_{kind}:{quote(PASSWORD)}@{server_address}"
    url = urlunsplit(parts._replace(netloc=netloc))
    return BackOffice(url, back_office.service_url, back_office.log, back_office.settings)


@pytest.fixture(scope="module")
def back_office(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffice]:
    folder = tmp_path_factory.mktemp("roles")
    back_offices = BackOffices(os.environ["DATABASE_URL"], folder, staffed=True)
    made = back_offices.build(sandbox.url)
    made.manage("databaseroles", "--apply", "--prefix", PREFIX)
    kinds = ("web", "worker", "audit")
    with psycopg.connect(made.database_url, autocommit=True) as owner:
        for kind in kinds:
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
            role = sql.Identifier(f"{PREFIX}_{kind}")
            owner.execute(statement.format(role, sql.Literal(PASSWORD)))
    try:
        yield made
    finally:
        back_offices.close()
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
            for kind in kinds:
                owner.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(f"{PREFIX}_{kind}")))


def run(back_office: BackOffice, code: str) -> None:
    process = back_office.start("-c", code)
    assert process.wait(120) == 0, back_office.said()


def test_worker_syncs_mirror_and_web_shows_it(back_office: BackOffice) -> None:
    as_role(back_office, "worker").sync("--full")
    assert back_office.value("SELECT count(*) FROM orders_order") > 0
    run(as_role(back_office, "web"), CHECK_PAGES)
    assert back_office.value("SELECT count(*) FROM audit_auditentry") > 0


def test_worker_seals_and_verifies_audit_log(back_office: BackOffice) -> None:
    back_office.query(
        "INSERT INTO audit_auditentry (action, object_type, object_ids, patient_ids,"
        " actor_kind, route, request_id, outcome, reason)"
        " VALUES ('view', 'order', '{}', '{}', 'staff', '', '', 'ok', '')"
    )
    run(as_role(back_office, "worker"), CHECK_SEALS)


def test_worker_creates_and_drops_device_data_partitions(back_office: BackOffice) -> None:
    run(as_role(back_office, "worker"), CHECK_PARTITIONS)


CHECK_CONNECTION_LIMIT = """
import django; django.setup()
import contextlib
import time
import psycopg
from django.conf import settings
from django.db import connection
from django.test import Client
given = connection.get_connection_params()
keys = [key for key in ("dbname", "user", "password", "host", "port") if key in given]
held = []
ends = time.monotonic() + 30  # a closed backend takes a moment to disappear
while len(held) < 3 and time.monotonic() < ends:
    with contextlib.suppress(psycopg.OperationalError):
        held.append(psycopg.connect(**{key: given[key] for key in keys}))
assert len(held) == 3
client = Client(raise_request_exception=False, headers={"host": "localhost"})
client.cookies[settings.SESSION_COOKIE_NAME] = "a" * 32
for address in ("/orders/", "/api/orders/"):
    answer = client.get(address)
    assert (answer.status_code, answer["Retry-After"]) == (503, "30"), answer.content[-300:]
held.pop().close()
while (status := client.get("/orders/").status_code) == 503 and time.monotonic() < ends:
    time.sleep(0.05)
assert status == 302, status
"""


def test_pages_answer_503_without_connections_then_recover(back_office: BackOffice) -> None:
    role = sql.Identifier(f"{PREFIX}_web")
    with psycopg.connect(back_office.database_url, autocommit=True) as owner:
        owner.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT 3").format(role))
        try:
            run(as_role(back_office, "web"), CHECK_CONNECTION_LIMIT)
        finally:
            owner.execute(sql.SQL("ALTER ROLE {} CONNECTION LIMIT -1").format(role))


FORBIDDEN_STATEMENTS = (
    "CREATE TABLE made_up (id int)",
    "ALTER TABLE orders_order ADD COLUMN made_up int",
    "DROP TABLE orders_order",
    "TRUNCATE orders_order",
    "CREATE INDEX made_up ON orders_order (id)",
    "ALTER TABLE audit_auditentry DISABLE TRIGGER ALL",
    "UPDATE audit_auditentry SET action = 'view'",
    "DELETE FROM audit_auditentry",
    "TRUNCATE audit_auditentry",
    "DELETE FROM orders_signature",
    "UPDATE orders_resultversion SET number = 9",
    "DELETE FROM django_migrations",
    "CREATE ROLE made_up",
    "ALTER SYSTEM SET log_statement = 'all'",
    "COPY (SELECT 1) TO PROGRAM 'true'",
)


@pytest.mark.parametrize("kind", ["web", "worker"])
def test_roles_refuse_forbidden_statements(back_office: BackOffice, kind: str) -> None:
    with psycopg.connect(as_role(back_office, kind).database_url, autocommit=True) as role:
        for statement in FORBIDDEN_STATEMENTS:
            if kind == "worker" and statement.startswith("CREATE TABLE"):
                continue  # the worker creates the monthly partitions of device data
            expected_error: type[psycopg.Error] = psycopg.errors.InsufficientPrivilege
            if kind == "worker" and statement == "DELETE FROM audit_auditentry":
                expected_error = (
                    psycopg.errors.RestrictViolation
                )  # the trigger refuses rows that have not expired
            with pytest.raises(expected_error):
                role.execute(statement.encode())
        for setting in ("statement_timeout", "lock_timeout"):
            found = role.execute(f"SHOW {setting}".encode()).fetchone()
            assert found != ("0",), setting


@pytest.mark.parametrize(("seconds", "limit"), [("7", "7s"), ("0", "30s")])
def test_page_limit_overrides_statement_limit_of_role(
    back_office: BackOffice, seconds: str, limit: str
) -> None:
    given = {"PAGE_STATEMENT_SECONDS": seconds, "EXPECTED": limit}
    process = as_role(back_office, "web").start("-c", CHECK_LIMIT, **given)
    assert process.wait(60) == 0, back_office.said()


def test_audit_role_reads_only_the_audit_log(back_office: BackOffice) -> None:
    with psycopg.connect(as_role(back_office, "audit").database_url, autocommit=True) as role:
        role.execute("SELECT count(*) FROM audit_auditentry")
        for table in (
            "orders_order",
            "patients_patient",
            "accounts_user",
            "accounts_staffsession",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                role.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
        with pytest.raises(psycopg.Error):
            role.execute("INSERT INTO audit_auditentry DEFAULT VALUES")


def test_owner_can_back_up_all_tables(back_office: BackOffice, tmp_path: Path) -> None:
    back_office.manage("backup", str(tmp_path / "backup"), REPORT_FOLDER=str(tmp_path / "reports"))
    assert (tmp_path / "backup" / "database.dump").stat().st_size > 10_000
