"""Embedded servers: start, reuse and stop, whatever happens to their owner."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from backoffice.devtools import embedded
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
RUN_SERVERS = """
import sys, time
from pathlib import Path
from backoffice.devtools import embedded
with embedded.servers(Path(sys.argv[1]), durable=False) as servers:
    print(servers.database_url, servers.redis_url, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    path = Path(tempfile.mkdtemp(prefix="bo-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def value(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]


def start_owner(home: Path) -> tuple[subprocess.Popen[str], str, str]:
    """Start another process that runs the servers of `home`."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_SERVERS, str(home)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    database_url, redis_url = process.stdout.readline().split()
    return process, database_url, redis_url


def processes_of(home: Path) -> list[int]:
    """Return processes with `home` in their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(home).encode() in words and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def processes_in(folder: Path) -> list[str]:
    """Return processes that work in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").resolve() == folder.resolve():
                found.append(entry.name)
    return found


def test_data_survives_crash_and_reused_process_number(home: Path) -> None:
    with embedded.servers(home, durable=False) as servers:
        with psycopg.connect(servers.database_url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        redis.Redis.from_url(servers.redis_url).set("kept", "8")
        pid = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not processes_in(home / "postgres"), 60, "its children to end")
    # The number in the file now belongs to a running program that is not PostgreSQL.
    (home / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    with embedded.servers(home, durable=False) as servers:
        assert value(servers.database_url, "SELECT n FROM kept") == 7
        assert redis.Redis.from_url(servers.redis_url).get("kept") == b"8"
    assert processes_of(home) == []


def test_killed_servers_are_restarted_and_reported(home: Path) -> None:
    """The addresses stay the same, because other processes know them."""
    messages: list[str] = []
    with embedded.servers(home, durable=False) as servers:

        def answer() -> bool:
            servers.tend(messages.append)
            return len(messages) == 4

        with psycopg.connect(servers.database_url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        for process in servers.processes:
            os.kill(process.process.pid, signal.SIGKILL)
            process.process.wait()
        wait_until(answer, 60, "both answer again", every=0.2)
        assert value(servers.database_url, "SELECT n FROM kept") == 7
        assert redis.Redis.from_url(servers.redis_url).ping()
        servers.tend(messages.append)
    assert sorted(line.split(",")[0] for line in messages) == [
        *("PostgreSQL answers again.", "PostgreSQL ended"),
        *("Redis answers again.", "Redis ended"),
    ]
    assert processes_of(home) == []


def test_log_contains_no_row_values(home: Path) -> None:
    with embedded.servers(home, durable=False) as servers:
        with psycopg.connect(servers.database_url, autocommit=True) as connection:
            connection.execute("CREATE TABLE person (name text CHECK (name = 'nobody'))")
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("INSERT INTO person VALUES ('CANARYNAME')")
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("INSERT INTO person VALUES (%s)", ["CANARYNAME"])
        log = (home / "log" / "postgres.log").read_text()
    assert "violates check constraint" in log
    assert "CANARYNAME" not in log


def test_servers_accept_only_this_user(home: Path) -> None:
    with embedded.servers(home, durable=False) as servers:
        parts = urlsplit(servers.database_url)
        assert parts.hostname == "127.0.0.1"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(servers.database_url.replace(str(parts.password), "wrong"))
        for private in ("sockets", "postgres", "valkey", "log"):
            assert (home / private).stat().st_mode & 0o077 == 0
        for secret in ("servers.json", "postgres-password"):
            assert (home / secret).stat().st_mode & 0o077 == 0
        assert value(servers.database_url, "SHOW synchronous_commit") == "on"
        settings = redis.Redis.from_url(servers.redis_url).config_get("*")
        assert settings["port"] == "0"
        assert settings["maxmemory-policy"] == "noeviction"
        assert settings["appendonly"] == "yes"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's help is Linux's")
def test_servers_end_with_killed_supervisor(home: Path) -> None:
    process, _, _ = start_owner(home)
    assert len(processes_of(home)) > 2
    process.kill()
    process.wait()
    wait_until(lambda: not processes_of(home), 60, "the servers to end")


def test_second_command_uses_running_servers(home: Path) -> None:
    process, database_url, redis_url = start_owner(home)
    try:
        with embedded.servers(home) as servers:
            assert (servers.database_url, servers.redis_url) == (database_url, redis_url)
            assert value(servers.database_url, "SELECT 1") == 1
        assert value(database_url, "SELECT 1") == 1  # a borrower leaves them running
        with (
            pytest.raises(embedded.ServersError, match="Wait until"),
            embedded.servers(home, borrow=False),
        ):
            pass
    finally:
        process.kill()
        process.wait()


def test_state_of_dead_owner_is_ignored(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    home.joinpath("servers.json").write_text(
        json.dumps({"pid": ended.pid, "database_url": "postgres://nowhere.invalid/x"})
    )
    with embedded.servers(home, durable=False) as servers:
        assert "nowhere" not in servers.database_url


def test_configured_server_is_not_started(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://someone@db.invalid/theirs")
    with embedded.servers(home, durable=False) as servers:
        assert servers.database_url == "postgres://someone@db.invalid/theirs"
        assert not servers.embedded
        assert not (home / "postgres" / "PG_VERSION").exists()
        assert redis.Redis.from_url(servers.redis_url).ping()


def test_sockets_work_in_deep_folder(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    deep.parent.mkdir()
    home.chmod(0o711)
    deep.parent.chmod(0o711)
    with embedded.servers(deep, durable=False) as servers:
        assert redis.Redis.from_url(servers.redis_url).ping()


def test_second_database_is_created_once(home: Path) -> None:
    with embedded.servers(home, durable=False) as servers:
        first = servers.database("other")
        with psycopg.connect(first, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        assert value(servers.database("other"), "SELECT n FROM kept") == 7


def test_folder_of_another_user_is_refused(home: Path) -> None:
    link = home / "link"
    link.symlink_to(home)
    with pytest.raises(embedded.ServersError, match="another user"), embedded.servers(link):
        pass
