"""Worlds are kept: a database per size and way of building, made once and used by many runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from backoffice.devtools.embedded import make_database

ROOT: Final = Path(__file__).resolve().parents[3]
HERE: Final = Path(__file__).resolve().parent


def kept(server: str, orders: int) -> str:
    """Address of a world of so many orders on the server of `server`, brought up to date.

    It is made anew when the way of building changed, and every week: what is "today" grows old.
    """
    stem = f"world_{orders}_"
    name = f"{stem}{_fingerprint()}"
    door = urlunsplit(urlsplit(server)._replace(path="/postgres"))
    with closing(psycopg.connect(door, autocommit=True)) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [stem]
        )
        there = {str(found) for (found,) in rows}
        for old in there - {name}:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(old)))
        if name not in there:
            print(f"{orders:,} orders: making them up", flush=True)
            making = f"{stem}making"
            address = make_database(server, making)
            _run(address, "-m", "tests.bench.world", str(orders))
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            connection.execute(rename.format(sql.Identifier(making), sql.Identifier(name)))
    address = make_database(server, name)
    before = _migrated(address)
    _run(address, "manage.py", "migrate", "-v0")
    if name not in there or before != _migrated(address):
        _run(address, "manage.py", "demo_users")
        with closing(psycopg.connect(address, autocommit=True)) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
    return address


def _migrated(address: str) -> int:
    with closing(psycopg.connect(address)) as connection:
        found = connection.execute("SELECT count(*) FROM django_migrations").fetchone()
        return int(found[0]) if found else 0


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{datetime.now(UTC):%G-%V}".encode())
    for file in sorted(HERE.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:10]


def _run(address: str, *command: str) -> None:
    environment = {**os.environ, "DATABASE_URL": address, "LOG_LEVEL": "ERROR", "LOCAL": "1"}
    quiet = subprocess.DEVNULL if command[0] == "manage.py" else None
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True, stdout=quiet)
