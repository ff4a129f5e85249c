"""Servers for single tests.

PostgreSQL of the oldest supported release and PgBouncer come from system packages. Where one is not
installed, its tests are skipped, unless `POSTGRES_15` or `PGBOUNCER` is `required`, as `.ci/run`
sets them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from backoffice.devtools.embedded import free_port, postgres
from backoffice.devtools.embedded.places import account, folder, make_home
from backoffice.devtools.embedded.processes import (
    as_account,
    await_ready,
    bare_environment,
    start,
    stop,
)

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")
PGBOUNCER = Path("/usr/sbin/pgbouncer")


def skip_without(program: Path | str, variable: str) -> None:
    if shutil.which(str(program)) is None:
        words = f"{program} is not installed"
        if os.environ.get(variable) == "required":
            pytest.fail(f"{words}, and {variable} is required")
        pytest.skip(words)


@contextlib.contextmanager
def server_folder(name: str) -> Iterator[Path]:
    """A folder for a server, with `log` and a folder that its account owns and works in."""
    base = Path(tempfile.mkdtemp(prefix="bo-"))
    base.chmod(0o711)
    try:
        folder(base / "log", 0o700, None)
        folder(base / name, 0o700, account())
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextlib.contextmanager
def postgres_18() -> Iterator[str]:
    """Run an embedded PostgreSQL apart from that of the tests, for roles of a whole server."""
    base = Path(tempfile.mkdtemp(prefix="bo-"))
    try:
        make_home(base, account())
        with postgres.running(base, account(), durable=False) as server:
            yield server.url
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextlib.contextmanager
def postgres_15() -> Iterator[str]:
    """Run PostgreSQL 15 without safety against power cuts; yield the URL of its superuser."""
    skip_without(POSTGRES_15 / "postgres", "POSTGRES_15")
    with server_folder("postgres") as base:
        data = base / "postgres" / "data"
        subprocess.run(
            [
                *(str(POSTGRES_15 / "initdb"), "-D", str(data), "-U", "postgres", "-E", "UTF8"),
                *("--locale=C.UTF-8", "--auth=trust", "--no-sync"),
            ],
            cwd=base / "postgres",
            env=bare_environment(),
            stdout=subprocess.DEVNULL,
            check=True,
            **as_account(account()),
        )
        port = free_port()
        values = {"port": str(port), "listen_addresses": "127.0.0.1", "fsync": "off"}
        values["unix_socket_directories"] = str(base / "postgres")
        options = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        command: list[str | Path] = [POSTGRES_15 / "postgres", "-D", data, *options]
        process = start(command, base, "postgres", account(), signal.SIGINT)
        url = f"postgres://postgres@127.0.0.1:{port}/postgres"
        try:
            log = base / "log" / "postgres.log"
            await_ready(process, lambda: postgres.answers(url), "PostgreSQL 15", log)
            yield url
        finally:
            stop(process, signal.SIGINT, signal.SIGQUIT)


@contextlib.contextmanager
def pgbouncer(config: Path, server: str, users: dict[str, str]) -> Iterator[str]:
    """Run PgBouncer with this configuration for the database of `server`.

    `users` are the names and passwords that it accepts. Yields its address without a user:
    `127.0.0.1:PORT/NAME`.
    """
    skip_without(PGBOUNCER, "PGBOUNCER")
    parts, port = urlsplit(server), free_port()
    name = parts.path.lstrip("/")
    with server_folder("pgbouncer") as base:
        own_folder = base / "pgbouncer"
        text = config.read_text()
        for line, replacement in {
            "backoffice = host=127.0.0.1 port=5432": f"{name} = host=127.0.0.1 port={parts.port}",
            "listen_port = 6432": f"listen_port = {port}\nunix_socket_dir =",
            "auth_file = /etc/pgbouncer/userlist.txt": f"auth_file = {own_folder}/userlist.txt",
        }.items():
            assert line in text, line
            text = text.replace(line, replacement)
        (own_folder / "pgbouncer.ini").write_text(text)
        user_lines = [f'"{user}" "{password}"\n' for user, password in users.items()]
        (own_folder / "userlist.txt").write_text("".join(user_lines))
        process = start([PGBOUNCER, "pgbouncer.ini"], base, "pgbouncer", account(), signal.SIGINT)
        user, password = next(iter(users.items()))
        address = f"127.0.0.1:{port}/{name}"
        try:
            log = base / "log" / "pgbouncer.log"
            url = f"postgres://{user}:{password}@{address}"
            await_ready(process, lambda: postgres.answers(url), "PgBouncer", log)
            yield address
        finally:
            stop(process, signal.SIGTERM, signal.SIGTERM)
