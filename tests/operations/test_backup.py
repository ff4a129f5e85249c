"""A backup under writes, restored to the byte; what is damaged, newer or in the way is refused."""

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

from backoffice.models import Backup, Hold
from backoffice.operations import dumps
from labs.reports import storage
from tests.outbox.workers import environment
from tests.sync.house import House, Houses

pytestmark = pytest.mark.django_db(transaction=True)

EVENTS = 5_000
FILL = """
INSERT INTO webhooks_event (message_id, sent_at, body, body_digest, state)
SELECT 'msg_' || %s || '_' || n, now(), convert_to('{"n": ' || n || '}', 'UTF8'), '\\x00', 'done'
FROM generate_series(1, %s) AS n
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    """The database under test, with reports of its own."""
    settings = {"REPORT_FOLDER": str(tmp_path / "reports")}
    return House(environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "log", settings)


@pytest.fixture
def filled(house: House, tmp_path: Path) -> Iterator[House]:
    """With events and a report file, while somebody goes on writing."""
    house.query(FILL, ["before", EVENTS])
    (tmp_path / "reports" / "ab").mkdir(parents=True)
    (tmp_path / "reports" / "ab" / "file").write_bytes(b"%PDF-made-up")
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            house.query(FILL, [f"meanwhile{number}", 20])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield house
    finally:
        over.set()
        writer.join()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[House]:
    """Another database, without tables, and no reports."""
    houses = Houses(environment()["DATABASE_URL"], tmp_path)
    house = houses.build("http://127.0.0.1:1", REPORT_FOLDER=str(tmp_path / "elsewhere"))
    house.query("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield house
    houses.close()


def contents(house: House) -> dict[str, list[object]]:
    with psycopg.connect(house.database_url) as opened:
        opened.execute("SET timezone = 'UTC'")
        return dumps.contents(opened)


def test_a_backup_under_writes_comes_back_to_the_byte(
    filled: House, empty: House, tmp_path: Path
) -> None:
    folder = tmp_path / "backups" / "today"
    filled.manage("backup", str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}
    assert modes == {0o600}
    manifest = json.loads((folder / "manifest.json").read_text())
    rows, _ = manifest["tables"]["webhooks_event"]
    assert EVENTS <= rows < filled.value("SELECT count(*) FROM webhooks_event")
    empty.manage("restore", str(folder))
    found = contents(empty)
    # Written by what comes after the comparing, which the command makes itself.
    changed = {
        "backoffice_hold",
        "backoffice_lookup",
        "backoffice_syncrun",
        "backoffice_staffsession",
    }
    assert found.keys() == manifest["tables"].keys()
    assert {name for name in found if found[name] != manifest["tables"][name]} <= changed
    assert (tmp_path / "elsewhere" / "ab" / "file").read_bytes() == b"%PDF-made-up"
    assert empty.value("SELECT count(*) FROM backoffice_hold WHERE released_at IS NULL") == 1
    assert empty.value("SELECT count(*) FROM backoffice_lookup WHERE kind = 'events-resent'") == 1
    (backup,) = Backup.objects.all()
    assert backup.bytes > 1_000


@pytest.fixture
def folder(tmp_path: Path, settings: Settings) -> Path:
    """A backup."""
    settings.REPORT_FOLDER = tmp_path / "reports"
    made = tmp_path / "backup"
    call_command("backup", str(made), stdout=StringIO())
    return made


def test_nothing_is_restored_over_what_is_there(folder: Path) -> None:
    with pytest.raises(CommandError, match="The database has tables"):
        call_command("restore", str(folder))
    with pytest.raises(CommandError, match="is there already"):
        call_command("backup", str(folder))
    assert not Hold.objects.exists()


@pytest.mark.parametrize("name", ["database.dump", "more", "manifest.json"])
def test_a_damaged_backup_is_refused_before_anything_is_touched(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b"x")
    words = "cannot be read" if name == "manifest.json" else f"damaged: {name} differ"
    with pytest.raises(CommandError, match=words):
        call_command("restore", str(folder))


def test_a_backup_of_a_newer_release_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    told = json.loads(path.read_text())
    told["migrations"].append(["backoffice", "9999_of_tomorrow"])
    path.write_text(json.dumps(told))
    with pytest.raises(CommandError, match="backoffice 9999_of_tomorrow"):
        call_command("restore", str(folder))


def test_a_backup_that_breaks_off_leaves_nothing(
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


def test_programs_older_than_the_server_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "pg_dump"
    old.write_text('#!/bin/sh\necho "pg_dump (PostgreSQL) 9.6"\n')
    old.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert dumps.program("pg_dump") != str(old)
    old.write_text('#!/bin/sh\necho "pg_dump (PostgreSQL) 99.1"\n')
    assert dumps.program("pg_dump") != str(old), "one of the server's release is nearer"


def test_a_backup_is_made_while_files_are_sealed_anew(tmp_path: Path, settings: Settings) -> None:
    """They are written under other names first, which come and go."""
    settings.REPORT_FOLDER = tmp_path / "reports"
    names = [storage.store(b"x" * 50_000).stored_as for _ in range(100)]
    over = threading.Event()

    def seal_anew() -> None:
        while not over.is_set():
            for name in names:
                path = settings.REPORT_FOLDER / name[:2] / name
                storage._write(path, path.read_bytes())

    with ThreadPoolExecutor(1) as pool:
        sealing = pool.submit(seal_anew)
        try:
            for number in range(4):
                call_command("backup", str(tmp_path / f"backup-{number}"), stdout=StringIO())
        finally:
            over.set()
        sealing.result()
    for number in range(4):
        kept = {path.name for path in (tmp_path / f"backup-{number}").rglob("??/*")}
        assert kept >= set(names)
