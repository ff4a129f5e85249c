"""The database owner has no superuser rights.

These tests cover its roles, backups and restores on the oldest and the newest PostgreSQL. Whatever
fails in a restore, sending is on hold.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from tests.operations.test_roles import CHECK_PARTITIONS
from tests.servers import postgres_15, postgres_18
from tests.sync.back_office import BackOffice, end

ROLE_KINDS = ("web", "worker", "audit")
CHECK_READINESS = """
import django; django.setup()
from django.test import Client
answer = Client(headers={"host": "localhost"}).get("/health/ready")
assert answer.status_code == 200, answer.content
"""
INSERT_WAITING_COMMAND = """
INSERT INTO outbox_commandrecord (id, kind, title, subject_type, subject_id, lock, payload,
 form_id, form_url, form_data, reason, idempotency_key, keys, state, attempts, looks, doubted,
 hindrance, refusal, refusal_fields, found, remote_id, done_url, confirmed_by, decision,
 requested_by_id)
SELECT gen_random_uuid(), 'order.cancel', 'Cancel', 'order', 'x', '', '{}', gen_random_uuid(), '',
 '{}', '', gen_random_uuid(), 0, 'waiting', 0, 0, false, '', '', '{}', '{}', '', '', '', '', id
FROM accounts_user LIMIT 1
"""
REFUSE_INDEXES = """
CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
$$ BEGIN IF EXISTS (SELECT FROM public.outbox_commandrecord) THEN
 RAISE EXCEPTION 'no index today'; END IF; END $$;
CREATE EVENT TRIGGER no_indexes ON ddl_command_start WHEN TAG IN ('CREATE INDEX')
EXECUTE FUNCTION refuse();
"""


@dataclass
class Server:
    """A PostgreSQL server.

    `url` is of its superuser, who only creates owners and their databases.
    """

    url: str = field(repr=False)
    folder: Path
    created: list[tuple[str, str]] = field(default_factory=list)

    def run(self, statement: sql.Composed | str, database: str = "postgres") -> None:
        address = urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))
        with psycopg.connect(address, autocommit=True) as superuser:
            superuser.execute(
                statement if isinstance(statement, sql.Composed) else statement.encode()
            )

    def owner(self, rights: str = "CREATEROLE") -> str:
        """Create an owner as docs/operating.md describes and return its name."""
        name = f"owner_{uuid.uuid4().hex[:8]}"
        self.created.append(("ROLE", name))
        self.run(f"CREATE ROLE {name} LOGIN {rights} PASSWORD 'made-up'")
        return name

    def database(self, owner: str) -> BackOffice:
        """Create a database without tables."""
        name = f"of_{owner}_{uuid.uuid4().hex[:6]}"
        self.created.append(("DATABASE", name))
        self.run(f"CREATE DATABASE {name} OWNER {owner}")
        parts = urlsplit(self.url)
        netloc = f"{owner}:made-up@{parts.netloc.rpartition('@')[2]}"
        address = urlunsplit(parts._replace(netloc=netloc, path=f"/{name}"))
        settings = {"REPORT_FOLDER": str(self.folder / "reports" / name)}
        return BackOffice(address, "http://127.0.0.1:1", self.folder / f"{name}.log", settings)

    def close(self) -> None:
        for kind, name in reversed(self.created):
            self.run(f"DROP {kind} {name}")


@pytest.fixture(scope="module", params=["15", "18"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    running = {"15": postgres_15, "18": postgres_18}[request.param]
    with running() as url:
        with psycopg.connect(url) as opened:
            assert opened.info.server_version // 10_000 == int(request.param)
        server = Server(url, tmp_path_factory.mktemp("owners"))
        yield server
        server.close()


@dataclass
class OwnedDatabase:
    name: str
    back_office: BackOffice
    prefix: str
    backup: Path


@pytest.fixture(scope="module")
def owned_database(server: Server) -> OwnedDatabase:
    """A database with a waiting command, used by roles its owner made, and its backup."""
    owner = server.owner()
    back_office = server.database(owner)
    back_office.manage("migrate", "-v0")
    back_office.manage("demo_users")
    back_office.query(INSERT_WAITING_COMMAND)
    prefix = f"bo_{owner}"
    server.created[:0] = [("ROLE", f"{prefix}_{kind}") for kind in ROLE_KINDS]
    for _ in range(2):
        back_office.manage("databaseroles", "--apply", "--prefix", prefix)
    backup = server.folder / f"backup-{owner}"
    back_office.manage("backup", str(backup))
    return OwnedDatabase(owner, back_office, prefix, backup)


def as_role(owned_database: OwnedDatabase, kind: str) -> BackOffice:
    back_office, parts = (
        owned_database.back_office,
        urlsplit(owned_database.back_office.database_url),
    )
    role = f"{owned_database.prefix}_{kind}"
    back_office.query(f"ALTER ROLE {role} PASSWORD 'made-up'")
    netloc = f"{role}:made-up@{parts.netloc.rpartition('@')[2]}"
    url = urlunsplit(parts._replace(netloc=netloc))
    return BackOffice(url, back_office.service_url, back_office.log, back_office.settings)


def runs_successfully(back_office: BackOffice, *command: str) -> bool:
    process = back_office.start(*command)
    try:
        return process.wait(120) == 0
    finally:
        end(process)


def on_hold(back_office: BackOffice) -> bool:
    return bool(back_office.value("SELECT count(*) FROM core_hold WHERE released_at IS NULL") == 1)


def test_owner_creates_roles_that_processes_can_use(owned_database: OwnedDatabase) -> None:
    assert (
        owned_database.back_office.value(
            "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        )
        is False
    )
    web, worker = as_role(owned_database, "web"), as_role(owned_database, "worker")
    assert runs_successfully(web, "-c", CHECK_READINESS), web.said()
    assert runs_successfully(worker, "-c", CHECK_PARTITIONS), worker.said()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        web.query("DELETE FROM audit_auditentry")
    statement = "ALTER TABLE wearables_chunk ADD COLUMN later int"
    owned_database.back_office.query(statement)  # as a migration of a later release may


def test_restore_by_owner_puts_sending_on_hold(
    owned_database: OwnedDatabase, server: Server
) -> None:
    back_office = server.database(owned_database.name)
    back_office.manage("restore", str(owned_database.backup))
    assert on_hold(back_office)
    assert back_office.value("SELECT state FROM outbox_commandrecord") == "uncertain"
    assert back_office.value("SELECT count(*) FROM pg_indexes WHERE indexname = 'one_hold'") == 1
    back_office.query("UPDATE core_hold SET released_at = now()")
    # Identity numbers continue.
    back_office.query("INSERT INTO core_hold (restored_to) VALUES (now())")


def test_restore_failing_after_rows_puts_sending_on_hold(
    owned_database: OwnedDatabase, server: Server
) -> None:
    back_office = server.database(owned_database.name)
    name = urlsplit(back_office.database_url).path.lstrip("/")
    server.run(REFUSE_INDEXES, name)
    assert not runs_successfully(back_office, "manage.py", "restore", str(owned_database.backup))
    assert "no index today" in back_office.said() and "Sending is on hold." in back_office.said()
    assert back_office.value("SELECT count(*) FROM outbox_commandrecord") == 1
    assert on_hold(back_office)


def test_restore_failing_in_migration_puts_sending_on_hold(
    owned_database: OwnedDatabase, server: Server
) -> None:
    """The roles on this server belong to another owner, so the grants they need fail."""
    other = server.owner("NOCREATEROLE")
    back_office = server.database(other)
    for kind in ROLE_KINDS:
        server.created.insert(0, ("ROLE", f"bo_{kind}"))
        server.run(f"CREATE ROLE bo_{kind}")
    assert not runs_successfully(back_office, "manage.py", "restore", str(owned_database.backup))
    assert "WITH ADMIN OPTION" in back_office.said() and "holdsending" in back_office.said()
    assert on_hold(back_office)
    assert back_office.value("SELECT state FROM outbox_commandrecord") == "uncertain"
