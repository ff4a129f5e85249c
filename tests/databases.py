"""Databases for processes under test, copied from one that was made ready before.

Migrations take a second and more; a copy a tenth. What is copied from goes with this process.
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

ROOT = Path(__file__).resolve().parent.parent


def migrated_house(server: str) -> str:
    """Address of a new database with the tables of the back office, on the server of this one."""
    return _copy(server, _house(server))


def staffed_house(server: str) -> str:
    """The same with the demo's users."""
    return _copy(server, _staffed_house(server))


def migrated_sandbox(server: str) -> str:
    return _copy(server, _sandbox(server))


def drop(database_url: str) -> None:
    name = urlsplit(database_url).path.lstrip("/")
    with _door(database_url) as connection:
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        connection.execute(statement.format(sql.Identifier(name)))


@cache
def _house(server: str) -> str:
    return _prepared(server, "template1", "manage.py", "migrate", "-v0")


@cache
def _staffed_house(server: str) -> str:
    return _prepared(server, _house(server), "manage.py", "demo_users")


@cache
def _sandbox(server: str) -> str:
    return _prepared(
        server, "template1", "-m", "django", "migrate", "-v0", "--settings=sandbox.settings"
    )


def _prepared(server: str, template: str, *command: str) -> str:
    """Name of a copy of `template` in which a command has been run."""
    url = _copy(server, template)
    atexit.register(_drop_if_there, url)
    databases = {"DATABASE_URL": url, "SANDBOX_DATABASE_URL": url}
    ours = {**os.environ, **databases, "LOCAL": "1", "PYTHONPATH": str(ROOT)}
    ours.pop("DJANGO_SETTINGS_MODULE", None)
    subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=ours, stdout=subprocess.DEVNULL, check=True
    )
    return urlsplit(url).path.lstrip("/")


def _copy(server: str, template: str) -> str:
    name = f"test_{uuid.uuid4().hex[:12]}"
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with _door(server) as connection:
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def _drop_if_there(database_url: str) -> None:
    """The server may be gone before us, as one that a test had for itself."""
    with contextlib.suppress(psycopg.OperationalError):
        drop(database_url)


def _door(server: str) -> psycopg.Connection:
    door = urlunsplit(urlsplit(server)._replace(path="/postgres"))
    return psycopg.connect(door, autocommit=True)
