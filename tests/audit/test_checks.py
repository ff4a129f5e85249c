"""Checks of the audit log: by command, every day, and on request of an auditor."""

from __future__ import annotations

import json
import logging
import threading
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.utils import timezone
from pytest_django import Settings

from backoffice.audit import seals, verification
from backoffice.audit.models import AuditCheck, AuditSeal
from backoffice.operations import tasks
from tests.api.rows import staff
from tests.audit.trail import ENTRIES, SEALS, as_table_owner, create_entries, sql

pytestmark = pytest.mark.django_db


def verify(*words: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of the command."""
    output, errors = StringIO(), StringIO()
    try:
        call_command("verifyaudit", *words, stdout=output, stderr=errors)
    except SystemExit as exit_:
        return int(str(exit_.code)), output.getvalue(), errors.getvalue()
    return 0, output.getvalue(), errors.getvalue()


def test_command_prints_checked_counts_and_head() -> None:
    create_entries(1_200)
    seals.seal()
    create_entries(2)
    code, output, errors = verify()
    assert (code, errors) == (0, "")
    assert "2 seals over 1,200 entries checked. Not yet sealed: 2." in output
    assert f"Head: {seals.head()}" in output
    assert verify("--head", seals.head())[0] == 0


def test_command_fails_when_log_is_broken() -> None:
    create_entries(10)
    seals.seal()
    remembered = seals.head()
    create_entries(10)
    seals.seal()
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = (SELECT max(id) FROM {ENTRIES})")
    code, _, errors = verify()
    assert code == 1 and "Seal 2" in errors and "1 entry missing" in errors
    with as_table_owner():
        sql(f"DELETE FROM {SEALS} WHERE n = 1")
    assert verify()[0] == 1
    assert "cut off" in verify("--head", remembered)[2]


def test_unknown_key_has_its_own_exit_code(settings: Settings) -> None:
    settings.AUDIT_KEYS = ["one " * 20]
    create_entries(1)
    seals.seal()
    settings.AUDIT_KEYS = ["two " * 20]
    code, _, errors = verify()
    assert code == 3 and "another key" in errors and "AUDIT_KEY" in errors


def test_since_option_checks_only_later_seals() -> None:
    create_entries(5)
    seals.seal(now=timezone.now() - timedelta(days=9))
    create_entries(3)
    seals.seal()
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = (SELECT min(id) FROM {ENTRIES})")
    since = str((timezone.now() - timedelta(days=2)).date())
    code, output, _ = verify("--since", since)
    assert code == 0 and "1 seals over 3 entries" in output
    assert verify()[0] == 1
    with as_table_owner():
        sql(f"UPDATE {SEALS} SET from_id = from_id + 1 WHERE n = 2")
    assert verify("--since", since)[0] == 1


@pytest.mark.parametrize(
    "words", [("--since", "yesterday"), ("--since", "2026-13-01"), ("--head", "7:zz"), ("--head",)]
)
def test_invalid_arguments_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        call_command("verifyaudit", *words)


def test_log_is_checked_every_day() -> None:
    create_entries(4)
    tasks.seal_audit_entries()
    tasks.verify_audit_chain()
    (check,) = AuditCheck.objects.all()
    assert (check.seals, check.entries, check.trouble, check.head) == (1, 4, [], seals.head())
    assert check.finished_at is not None and check.asked_by is None
    tasks.verify_audit_chain()
    assert AuditCheck.objects.count() == 1
    verification.run_due_check(now=timezone.now() + timedelta(hours=25))
    assert AuditCheck.objects.count() == 2


def test_next_check_finds_missing_end() -> None:
    create_entries(4)
    seals.seal()
    verification.run_due_check()
    create_entries(4)
    seals.seal()
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES}")
        sql(f"DELETE FROM {SEALS}")
    verification.run_due_check(now=timezone.now() + timedelta(hours=25))
    last = AuditCheck.objects.latest_finished()
    assert last is not None and "cut off" in last.trouble[0]


def test_check_logs_the_head_and_broken_seals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    create_entries(4)
    seals.seal()
    with caplog.at_level(logging.INFO, "backoffice.audit"):
        verification.run_due_check()
        assert seals.head() in caplog.text
        assert "broken" not in caplog.text
        with as_table_owner():
            sql(f"DELETE FROM {ENTRIES}")
        verification.run_due_check(now=timezone.now() + timedelta(hours=25))
    assert caplog.records[-1].levelname == "ERROR"
    assert "broken: 1 findings" in caplog.text


def test_requested_and_interrupted_checks_are_run() -> None:
    verification.run_due_check()
    AuditCheck.objects.create(asked_by=staff("auditor"))
    check = verification.run_due_check()
    assert check is not None and check.asked_by is not None
    AuditCheck.objects.filter(pk=check.pk).update(finished_at=None)
    again = verification.run_due_check()
    assert again == check and again.finished_at is not None
    assert verification.run_due_check() is None


@pytest.mark.django_db(transaction=True)
def test_only_one_process_checks_at_a_time() -> None:
    is_locked, release = threading.Event(), threading.Event()

    def hold_lock() -> None:
        try:
            with transaction.atomic():
                sql("SELECT pg_advisory_xact_lock(%s)", verification.LOCK)
                is_locked.set()
                assert release.wait(20)
        finally:
            connection.close()

    other = threading.Thread(target=hold_lock)
    other.start()
    assert is_locked.wait(20)
    assert verification.run_due_check() is None
    release.set()
    other.join()
    assert verification.run_due_check() is not None


def test_progress_is_reported_every_hundred_seals() -> None:
    """Progress is reported every hundred seals, whatever they contain."""
    for _ in range(verification.STEP + 5):
        create_entries(1)
        seals.seal()
    reported: list[Any] = []
    found = verification.check_chain(progress=lambda now: reported.append(now.seals))
    assert reported == [verification.STEP] and found.seals == verification.STEP + 5
    assert json.dumps(found.findings) == "[]"
    assert AuditSeal.objects.count() == found.seals
