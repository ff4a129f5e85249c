"""Backups taken during writes restore exactly; damaged, newer or misplaced ones are refused."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from backoffice.core.models import Backup, Hold
from backoffice.operations import dumps
from labs.reports import storage
from tests.outbox.workers import environment
from tests.sync.back_office import BackOffice, BackOffices

pytestmark = pytest.mark.django_db(transaction=True)

EVENT_COUNT = 5_000
INSERT_EVENTS = """
INSERT INTO webhooks_event (message_id, sent_at, body, body_digest, state)
SELECT 'msg_' || %s || '_' || n, now(), convert_to('{"n": ' || n || '}', 'UTF8'), '\\x00', 'done'
FROM generate_series(1, %s) AS n
"""


@pytest.fixture
def back_office(tmp_path: Path) -> BackOffice:
    """The database under test, with its own report folder."""
    settings = {"REPORT_FOLDER": str(tmp_path / "reports")}
    return BackOffice(
        environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "log", settings
    )


@pytest.fixture
def back_office_with_writes(back_office: BackOffice, tmp_path: Path) -> Iterator[BackOffice]:
    """A database with events and a report file, while a thread goes on writing events."""
    back_office.query(INSERT_EVENTS, ["before", EVENT_COUNT])
    (tmp_path / "reports" / "ab").mkdir(parents=True)
    (tmp_path / "reports" / "ab" / "file").write_bytes(b"%PDF-made-up")
    stop_event = threading.Event()

    def write() -> None:
        number = 0
        while not stop_event.is_set():
            number += 1
            back_office.query(INSERT_EVENTS, [f"meanwhile{number}", 20])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield back_office
    finally:
        stop_event.set()
        writer.join()


@pytest.fixture
def empty_back_office(tmp_path: Path) -> Iterator[BackOffice]:
    """Another database without tables and reports."""
    back_offices = BackOffices(environment()["DATABASE_URL"], tmp_path)
    back_office = back_offices.build(
        "http://127.0.0.1:1", REPORT_FOLDER=str(tmp_path / "elsewhere")
    )
    back_office.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield back_office
    back_offices.close()


def read_contents(back_office: BackOffice) -> dict[str, list[int | str]]:
    with psycopg.connect(back_office.database_url) as opened:
        opened.execute("SET timezone = 'UTC'")
        return dumps.contents(opened)


def test_backup_taken_during_writes_restores_exactly(
    back_office_with_writes: BackOffice, empty_back_office: BackOffice, tmp_path: Path
) -> None:
    backup_folder = tmp_path / "backups" / "today"
    back_office_with_writes.manage("backup", str(backup_folder))
    assert stat.S_IMODE(backup_folder.stat().st_mode) == 0o700
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in backup_folder.iterdir() if path.is_file()
    }
    assert modes == {0o600}
    manifest = json.loads((backup_folder / "manifest.json").read_text())
    rows, _ = manifest["tables"]["webhooks_event"]
    assert (
        EVENT_COUNT <= rows < back_office_with_writes.value("SELECT count(*) FROM webhooks_event")
    )
    empty_back_office.manage("restore", str(backup_folder))
    found = read_contents(empty_back_office)
    # The restore command starts a comparison with the service afterwards, which writes these
    # tables.
    changed = {
        "core_hold",
        "sync_lookup",
        "sync_syncrun",
        "accounts_staffsession",
    }
    assert found.keys() == manifest["tables"].keys()
    assert {name for name in found if found[name] != manifest["tables"][name]} <= changed
    assert (tmp_path / "elsewhere" / "ab" / "file").read_bytes() == b"%PDF-made-up"
    assert empty_back_office.value("SELECT count(*) FROM core_hold WHERE released_at IS NULL") == 1
    assert (
        empty_back_office.value("SELECT count(*) FROM sync_lookup WHERE kind = 'events-resent'")
        == 1
    )
    (backup,) = Backup.objects.all()
    assert backup.bytes > 1_000


@pytest.fixture
def backup_folder(tmp_path: Path, settings: Settings) -> Path:
    """The folder of a finished backup."""
    settings.REPORT_FOLDER = tmp_path / "reports"
    path = tmp_path / "backup"
    call_command("backup", str(path), stdout=StringIO())
    return path


def test_restore_and_backup_refuse_to_overwrite(backup_folder: Path) -> None:
    with pytest.raises(CommandError, match="The database has tables"):
        call_command("restore", str(backup_folder))
    with pytest.raises(CommandError, match="already exists"):
        call_command("backup", str(backup_folder))
    assert not Hold.objects.exists()


@pytest.mark.parametrize("name", ["database.dump", "more", "manifest.json"])
def test_restore_refuses_damaged_backup_first(backup_folder: Path, name: str) -> None:
    with (backup_folder / name).open("ab") as file:
        file.write(b"x")
    expected_error = "cannot be read" if name == "manifest.json" else f"damaged: {name} differ"
    with pytest.raises(CommandError, match=expected_error):
        call_command("restore", str(backup_folder))


def test_restore_refuses_backup_of_newer_release(backup_folder: Path) -> None:
    path = backup_folder / "manifest.json"
    manifest_data = json.loads(path.read_text())
    manifest_data["migrations"].append(["orders", "9999_of_tomorrow"])
    path.write_text(json.dumps(manifest_data))
    with pytest.raises(CommandError, match="orders 9999_of_tomorrow"):
        call_command("restore", str(backup_folder))


def test_failed_backup_leaves_no_files_and_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "pg_dump"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "pg_dump 18.0" && exit\necho broken >&2; exit 1\n'
    )
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CommandError, match="pg_dump failed:\nbroken"):
        call_command("backup", str(tmp_path / "backup"))
    assert [path.name for path in tmp_path.iterdir()] == ["pg_dump"]
    assert not Backup.objects.exists()


def test_dump_program_older_than_server_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "pg_dump"
    old.write_text('#!/bin/sh\necho "pg_dump (PostgreSQL) 9.6"\n')
    old.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert dumps.program("pg_dump") != str(old)
    old.write_text('#!/bin/sh\necho "pg_dump (PostgreSQL) 99.1"\n')
    assert dumps.program("pg_dump") != str(old), "a program of the server's release is preferred"


def test_backup_succeeds_during_report_encryption_rotation(
    tmp_path: Path, settings: Settings
) -> None:
    """Rotation writes each file under a temporary name first, so names appear and disappear."""
    settings.REPORT_FOLDER = tmp_path / "reports"
    names = [storage.store(b"x" * 50_000).stored_as for _ in range(100)]
    stop_event = threading.Event()

    def rewrite_files() -> None:
        while not stop_event.is_set():
            for name in names:
                path = settings.REPORT_FOLDER / name[:2] / name
                storage._write(path, path.read_bytes())

    with ThreadPoolExecutor(1) as pool:
        rewriting = pool.submit(rewrite_files)
        try:
            for number in range(4):
                call_command("backup", str(tmp_path / f"backup-{number}"), stdout=StringIO())
        finally:
            stop_event.set()
        rewriting.result()
    for number in range(4):
        backed_up_names = {path.name for path in (tmp_path / f"backup-{number}").rglob("??/*")}
        assert backed_up_names >= set(names)
