"""The head of the audit log is stored outside the database, so the next sealing finds a cut."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.management import call_command
from pytest_django import Settings

from backoffice.audit import chain_head, seals, verification
from backoffice.audit.models import AuditCheck
from backoffice.operations import status, tasks
from tests.audit.trail import ENTRIES, SEALS, as_table_owner, create_entries, sql

pytestmark = pytest.mark.django_db
CUT_MESSAGE = "The audit trail was changed or cut. See System > Audit."


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def head_file(settings: Settings, tmp_path: Path) -> Path:
    settings.AUDIT_HEAD_FILE = tmp_path / "heads.log"
    return tmp_path / "heads.log"


def _cut_newest() -> None:
    """Remove the newest seal and its entries, as an owner of the tables can."""
    with as_table_owner():
        last = sql(f"SELECT max(n) FROM {SEALS}")
        sql(f"DELETE FROM {ENTRIES} WHERE id >= (SELECT from_id FROM {SEALS} WHERE n = %s)", last)
        sql(f"DELETE FROM {SEALS} WHERE n = %s", last)


def _seal_twice() -> None:
    for _ in range(2):
        create_entries(5)
        tasks.seal_audit_entries()


def _reasons() -> list[str]:
    return [reason.words for reason in status.read().reasons]


def test_each_sealing_logs_its_head_and_appends_it_to_file(
    head_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heads = []
    for _ in range(2):
        create_entries(5)
        with caplog.at_level(logging.INFO):
            tasks.seal_audit_entries()
        heads.append(seals.head())
        assert f"audit trail ends with seal {seals.head()}" in caplog.text
    tasks.seal_audit_entries()  # No new entries: nothing is appended.
    assert [line.split(" ")[1] for line in head_file.read_text().splitlines()] == heads


@pytest.mark.parametrize("store", ["file", "Redis"])
def test_next_sealing_finds_a_cut_end(store: str, settings: Settings, tmp_path: Path) -> None:
    settings.AUDIT_HEAD_FILE = tmp_path / "heads.log" if store == "file" else None
    _seal_twice()
    if store == "file":
        cache.clear()
    assert CUT_MESSAGE not in _reasons()
    remembered = seals.head()
    _cut_newest()
    create_entries(5)  # Later entries get the number of the seal that was cut off.
    tasks.seal_audit_entries()
    assert CUT_MESSAGE in _reasons()
    latest = AuditCheck.objects.latest_finished()
    assert latest is not None and any("cut off" in words for words in latest.trouble)
    tasks.seal_audit_entries()
    assert AuditCheck.objects.count() == 1, "one finding in total, not one a minute"
    assert chain_head.remembered_head() == remembered, "the lost head is still stored"


def test_missing_start_is_a_finding() -> None:
    _seal_twice()
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES}")
        sql(f"DELETE FROM {SEALS}")
    cache.clear()
    create_entries(5)
    tasks.seal_audit_entries()
    found = verification.check_chain()
    assert [words for words in found.trouble if "the trail begins at entry" in words]


def test_accepted_end_is_recorded_and_continued(head_file: Path) -> None:
    _seal_twice()
    _cut_newest()
    tasks.seal_audit_entries()
    assert CUT_MESSAGE in _reasons()
    call_command("verifyaudit", "--accept", stdout=StringIO())
    assert CUT_MESSAGE not in _reasons()
    assert chain_head.remembered_head() == seals.head()
    recorded = sql(f"SELECT reason FROM {ENTRIES} WHERE object_type = 'audit trail'")
    assert recorded.startswith("end accepted; remembered before: 2:")
    tasks.seal_audit_entries()
    assert CUT_MESSAGE not in _reasons()


def test_broken_log_cannot_be_accepted(head_file: Path) -> None:
    _seal_twice()
    with as_table_owner():
        sql(f"UPDATE {ENTRIES} SET reason = 'changed' WHERE id = (SELECT min(id) FROM {ENTRIES})")
    with pytest.raises(SystemExit):
        call_command("verifyaudit", "--accept", stdout=StringIO(), stderr=StringIO())


def test_command_checks_the_stored_head(head_file: Path) -> None:
    _seal_twice()
    call_command("verifyaudit", stdout=StringIO())
    _cut_newest()
    errors = StringIO()
    with pytest.raises(SystemExit):
        call_command("verifyaudit", stdout=StringIO(), stderr=errors)
    assert "cut off" in errors.getvalue()


def test_unwritable_head_file_is_logged_and_sealing_continues(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.AUDIT_HEAD_FILE = tmp_path / "missing" / "heads.log"
    create_entries(5)
    tasks.seal_audit_entries()
    assert "AUDIT_HEAD_FILE cannot be written" in caplog.text
    assert seals.head().startswith("1:")
