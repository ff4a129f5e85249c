"""Databases for tests and for processes under test, copied from one that was made ready before.

Migrations take ten seconds; a copy a tenth of one. What is copied from (a template) is made by the
first of the processes of a test run that needs it, and is found again by the next run on the same
server as long as nothing that made it has changed. Copies go with the process that began them.
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
from psycopg import sql

from backoffice.devtools.embedded import postgres

ROOT = Path(__file__).resolve().parent.parent
RUN = os.environ.get("TEST_RUN") or uuid.uuid4().hex[:12]
"""Ends the names of all copies; processes that are started from here know it, too."""
SOURCES_OF_TEMPLATES = (
    *("*/migrations/*.py", "*/*/migrations/*.py", "**/sql/*.sql", "requirements.lock"),
    *("backoffice/settings.py", "backoffice/apps.py", "backoffice/accounts/access.py"),
    "backoffice/core/installation.py",
    "backoffice/core/generated_fields.py",
    *("backoffice/operations/roles.py", "backoffice/management/commands/*.py"),
)
"""What decides how a database looks that `migrate` (and `demo_users`) made."""


@cache
def hash_of_sources() -> str:
    """End of the names of templates."""
    digest = hashlib.sha256()
    for pattern in SOURCES_OF_TEMPLATES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def migrated_house(server: str) -> str:
    """Address of a new database with the tables of the back office, on the server of this one."""
    return _copy(server, house(server))


def staffed_house(server: str) -> str:
    """The same with the demo's users."""
    return _copy(server, _staffed(server))


def migrated_sandbox(server: str) -> str:
    return _copy(server, _sandbox(server))


def drop(database_url: str) -> None:
    postgres.drop_database(database_url, postgres.database_name(database_url))


@cache
def house(server: str) -> str:
    """Name of a database with the tables of the back office that is copied from."""
    return _prepared(server, "house", "template1", "manage.py", "migrate", "-v0")


@cache
def _staffed(server: str) -> str:
    return _prepared(server, "staffed", house(server), "manage.py", "demo_users")


@cache
def _sandbox(server: str) -> str:
    command = ("-m", "django", "migrate", "-v0", "--settings=sandbox.settings")
    return _prepared(server, "sandbox", "template1", *command)


def _prepared(server: str, kind: str, template: str, *command: str) -> str:
    """Name of a copy of `template` in which a command has been run."""
    name = f"template_{kind}_{hash_of_sources()}"
    with _door(server) as connection:
        # Until the connection closes: the others wait, and find it made.
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).rowcount:
            making = _copy(server, template)
            databases = {"DATABASE_URL": making, "SANDBOX_DATABASE_URL": making}
            ours = {**os.environ, **databases, "LOCAL": "1", "PYTHONPATH": str(ROOT)}
            ours.pop("DJANGO_SETTINGS_MODULE", None)
            silent = subprocess.DEVNULL
            subprocess.run(
                [sys.executable, *command], cwd=ROOT, env=ours, stdout=silent, check=True
            )
            renamed = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            made = urlsplit(making).path.lstrip("/")
            connection.execute(renamed.format(sql.Identifier(made), sql.Identifier(name)))
    return name


def _copy(server: str, template: str) -> str:
    name = f"test_{uuid.uuid4().hex[:12]}_{RUN}"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with _door(server) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def _drop_where(server: str, condition: str, *values: str) -> None:
    """Drop databases by the name. The server may be gone before us."""
    with contextlib.suppress(psycopg.OperationalError), _door(server) as connection:
        named = f"SELECT datname FROM pg_database WHERE {condition}"
        for (name,) in connection.execute(named.encode(), values).fetchall():
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def _drop_copies(server: str) -> None:
    _drop_where(server, "datname LIKE %s", f"test%{RUN}")


def _remove_leftovers(server: str, redis_url: str) -> None:
    """What earlier runs left on servers that are used again: copies of killed runs, templates of
    other sources, everything in Redis."""
    _drop_where(server, "datname LIKE 'test%%'")
    _drop_where(
        server, "datname LIKE 'template\\_%%' AND datname NOT LIKE %s", f"%{hash_of_sources()}"
    )
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()


def _door(server: str) -> psycopg.Connection:
    door = urlunsplit(urlsplit(server)._replace(path="/postgres"))
    return psycopg.connect(door, autocommit=True)


if "TEST_RUN" not in os.environ:
    os.environ["TEST_RUN"] = RUN
    if os.environ.get("TEST_SERVERS") == "reused":
        _remove_leftovers(os.environ["DATABASE_URL"], os.environ["REDIS_URL"])
    if "DATABASE_URL" in os.environ:
        atexit.register(_drop_copies, os.environ["DATABASE_URL"])
