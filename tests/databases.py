"""Databases for tests and for processes under test, copied from prepared templates.

Migrations take ten seconds; a copy takes a tenth of one. The first process of a test run that needs
a template makes it. The next run on the same server reuses it as long as its sources are unchanged.
Copies are dropped with the process that started them.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis
from django.db import connection
from psycopg import sql

from backoffice.devtools.embedded import postgres

ROOT = Path(__file__).resolve().parent.parent
RUN = os.environ.get("TEST_RUN") or uuid.uuid4().hex[:12]
"""Suffix of the names of all copies. Processes started from here know it, too."""
TEMPLATE_SOURCES = (
    *("*/migrations/*.py", "*/*/migrations/*.py", "**/sql/*.sql", "requirements.lock"),
    *("backoffice/settings.py", "backoffice/apps.py", "backoffice/accounts/access.py"),
    "backoffice/core/installation.py",
    "backoffice/core/generated_fields.py",
    *("backoffice/operations/database_roles.py", "backoffice/management/commands/*.py"),
)
"""Files that determine the database that `migrate` (and `demo_users`) makes."""


@cache
def source_hash() -> str:
    """Return the suffix of the names of templates."""
    digest = hashlib.sha256()
    for pattern in TEMPLATE_SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def connect_separately() -> psycopg.Connection:
    """Return another connection to the test database, outside Django."""
    given = connection.get_connection_params()
    keys = ("dbname", "user", "password", "host", "port")
    return psycopg.connect(**{key: given[key] for key in keys if key in given})


def migrated_database(server: str) -> str:
    """Return the URL of a new database with the tables of the back office, on the same server."""
    return _copy(server, migrated_template(server))


def staffed_database(server: str) -> str:
    """Return the URL of such a database with the users of the demo."""
    return _copy(server, _staffed_template(server))


def migrated_sandbox(server: str) -> str:
    return _copy(server, _sandbox_template(server))


def drop(database_url: str) -> None:
    postgres.drop_database(database_url, postgres.database_name(database_url))


@cache
def migrated_template(server: str) -> str:
    """Return the name of the template database with the tables of the back office."""
    return _ensure_template(server, "back_office", "template1", "manage.py", "migrate", "-v0")


@cache
def _staffed_template(server: str) -> str:
    return _ensure_template(server, "staffed", migrated_template(server), "manage.py", "demo_users")


@cache
def _sandbox_template(server: str) -> str:
    command = ("-m", "django", "migrate", "-v0", "--settings=sandbox.settings")
    return _ensure_template(server, "sandbox", "template1", *command)


def _ensure_template(server: str, kind: str, template: str, *command: str) -> str:
    """Return the name of a copy of `template` in which a command has been run."""
    name = f"template_{kind}_{source_hash()}"
    with _maintenance_connection(server) as connection:
        # The lock lasts until the connection closes. Other processes wait and then find the
        # template.
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount:
            new_url = _copy(server, template)
            databases = {"DATABASE_URL": new_url, "SANDBOX_DATABASE_URL": new_url}
            environment = {**os.environ, **databases, "LOCAL": "1", "PYTHONPATH": str(ROOT)}
            environment.pop("DJANGO_SETTINGS_MODULE", None)
            silent = subprocess.DEVNULL
            subprocess.run(
                [sys.executable, *command], cwd=ROOT, env=environment, stdout=silent, check=True
            )
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            new_name = urlsplit(new_url).path.lstrip("/")
            connection.execute(rename.format(sql.Identifier(new_name), sql.Identifier(name)))
    return name


def _copy(server: str, template: str) -> str:
    name = f"test_{uuid.uuid4().hex[:12]}_{RUN}"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with _maintenance_connection(server) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def _drop_where(server: str, condition: str, *values: str) -> None:
    """Drop databases by their names. The server may have stopped before."""
    with (
        contextlib.suppress(psycopg.OperationalError),
        _maintenance_connection(server) as connection,
    ):
        query = f"SELECT datname FROM pg_database WHERE {condition}"
        for (name,) in connection.execute(query.encode(), values).fetchall():
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def _drop_copies(server: str) -> None:
    _drop_where(server, "datname LIKE %s", f"test%{RUN}")


def _remove_leftovers(server: str, redis_url: str) -> None:
    """Remove leftovers of earlier runs on reused servers.

    These are copies of killed runs, templates of other sources, and everything in Redis.
    """
    _drop_where(server, "datname LIKE 'test%%'")
    _drop_where(server, "datname LIKE 'template\\_%%' AND datname NOT LIKE %s", f"%{source_hash()}")
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()


def _maintenance_connection(server: str) -> psycopg.Connection:
    url = urlunsplit(urlsplit(server)._replace(path="/postgres"))
    return psycopg.connect(url, autocommit=True)


if "TEST_RUN" not in os.environ:
    os.environ["TEST_RUN"] = RUN
    if os.environ.get("TEST_SERVERS") == "reused":
        _remove_leftovers(os.environ["DATABASE_URL"], os.environ["REDIS_URL"])
    if "DATABASE_URL" in os.environ:
        atexit.register(_drop_copies, os.environ["DATABASE_URL"])
