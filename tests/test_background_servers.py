"""Servers that `./run test` leaves running for its next call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from backoffice.devtools.embedded import Servers, background
from tests import databases
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def base() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bo-"))
    folder.chmod(0o711)
    yield folder / "test"
    background.stop(folder / "test")
    shutil.rmtree(folder, ignore_errors=True)


def _started_at(servers: Servers) -> object:
    """Return when the server started: another server has another start time."""
    with psycopg.connect(servers.database_url) as connection:
        row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        assert row
        return row[0]


def test_servers_stay_until_they_are_stopped(base: Path) -> None:
    with background.background_servers(base) as servers:
        assert servers
        first = _started_at(servers)
    with background.background_servers(base) as servers:
        assert servers
        assert _started_at(servers) == first
    assert background.stop(base)
    assert not base.exists()
    assert not background.stop(base)
    with pytest.raises(psycopg.OperationalError):
        _started_at(servers)


def test_second_command_at_once_gets_no_shared_servers(base: Path) -> None:
    with (
        background.background_servers(base) as servers,
        background.background_servers(base) as others,
    ):
        assert servers
        assert others is None


def test_servers_of_another_version_are_replaced(base: Path) -> None:
    with background.background_servers(base) as servers:
        assert servers
        first = _started_at(servers)
    (base / "version").write_text("of an earlier checkout")
    with background.background_servers(base) as servers:
        assert servers
        assert _started_at(servers) != first


def test_idle_servers_stop_by_themselves(base: Path) -> None:
    excluded = ("DATABASE_URL", "REDIS_URL")
    environment = {name: value for name, value in os.environ.items() if name not in excluded}
    owner = subprocess.Popen(
        [sys.executable, "-m", background.MODULE, str(base), "0.2"],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    assert owner.wait(90) == 0
    assert not base.exists()


def test_killed_owner_takes_its_servers_along(base: Path) -> None:
    with background.background_servers(base) as servers:
        assert servers
        first = servers
    os.kill(int((base / "owner").read_text()), 9)

    def is_gone() -> bool:
        try:
            _started_at(first)
        except psycopg.OperationalError:
            return True
        return False

    wait_until(is_gone, 60, "the servers to end")
    with background.background_servers(base) as servers:
        assert servers
        assert _started_at(servers)


def test_template_is_made_once_and_named_by_its_sources() -> None:
    server = os.environ["DATABASE_URL"]
    template = databases.migrated_template(server)
    assert template == f"template_back_office_{databases.source_hash()}"

    def template_oid() -> object:
        with psycopg.connect(server) as connection:
            return connection.execute(
                "SELECT oid FROM pg_database WHERE datname = %s", [template]
            ).fetchone()

    first = template_oid()
    assert first
    databases.migrated_template.cache_clear()  # as the next call of `./run test` begins
    assert databases.migrated_template(server) == template
    assert template_oid() == first


def test_every_migration_and_lock_changes_the_templates_name() -> None:
    sources = {path for pattern in databases.TEMPLATE_SOURCES for path in ROOT.glob(pattern)}
    migrations = {path for path in ROOT.glob("**/migrations/0*.py") if ".venv" not in path.parts}
    assert len(migrations) > 12
    assert migrations | {ROOT / "requirements.lock"} <= sources
