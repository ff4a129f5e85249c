"""Databases for tests and for processes under test, copied from one that was made ready before.

Migrations take ten seconds; a copy a tenth of one. What is copied from is made by the first of the
processes of a test run that needs it, and goes with the process that began them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import uuid
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from backoffice.embedded import postgres

ROOT = Path(__file__).resolve().parent.parent
RUN = os.environ.get("TEST_RUN") or uuid.uuid4().hex[:12]
"""Ends the names of all of them; processes that are started from here know it, too."""


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
    name = f"test_{kind}_{RUN}"
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


def _tidy(server: str) -> None:
    """The server may be gone before us."""
    with contextlib.suppress(psycopg.OperationalError), _door(server) as connection:
        named = "SELECT datname FROM pg_database WHERE datname LIKE %s"
        for (name,) in connection.execute(named, [f"test%{RUN}"]).fetchall():
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def _door(server: str) -> psycopg.Connection:
    door = urlunsplit(urlsplit(server)._replace(path="/postgres"))
    return psycopg.connect(door, autocommit=True)


if "TEST_RUN" not in os.environ:
    os.environ["TEST_RUN"] = RUN
    if "DATABASE_URL" in os.environ:
        atexit.register(_tidy, os.environ["DATABASE_URL"])
