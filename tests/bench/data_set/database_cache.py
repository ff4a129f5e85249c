"""Generated data sets are stored: one database per size and version of the code, built once and
used by many runs."""

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


def database_with_orders(server: str, orders: int) -> str:
    """Return the URL of an up-to-date data set of this size on the server of `server`.

    It is built again when its code has changed, and every week, because its "today" grows old.
    """
    stem = f"world_{orders}_"
    name = f"{stem}{_fingerprint()}"
    maintenance_url = urlunsplit(urlsplit(server)._replace(path="/postgres"))
    with closing(psycopg.connect(maintenance_url, autocommit=True)) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [stem]
        )
        existing = {str(name_found) for (name_found,) in rows}
        for old in existing - {name}:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(old)))
        if name not in existing:
            print(f"{orders:,} orders: making them up", flush=True)
            temporary_name = f"{stem}making"
            address = make_database(server, temporary_name)
            _run(address, "-m", "tests.bench.data_set", str(orders))
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            connection.execute(rename.format(sql.Identifier(temporary_name), sql.Identifier(name)))
    address = make_database(server, name)
    migrations_before = _migration_count(address)
    _run(address, "manage.py", "migrate", "-v0")
    if name not in existing or migrations_before != _migration_count(address):
        _run(address, "manage.py", "demo_users")
        with closing(psycopg.connect(address, autocommit=True)) as connection:
            connection.execute("VACUUM (ANALYZE)")
            connection.execute("CHECKPOINT")
    return address


def _migration_count(address: str) -> int:
    with closing(psycopg.connect(address)) as connection:
        row = connection.execute("SELECT count(*) FROM django_migrations").fetchone()
        return int(row[0]) if row else 0


def _fingerprint() -> str:
    digest = hashlib.sha256(f"{datetime.now(UTC):%G-%V}".encode())
    for file in sorted(HERE.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:10]


def _run(address: str, *command: str) -> None:
    environment = {**os.environ, "DATABASE_URL": address, "LOG_LEVEL": "ERROR", "LOCAL": "1"}
    quiet = subprocess.DEVNULL if command[0] == "manage.py" else None
    subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True, stdout=quiet)
