"""Checks: by hand, every day, and when an auditor asks."""

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
from tests.audit.trail import ENTRIES, SEALS, entries, owner, sql

pytestmark = pytest.mark.django_db


def verify(*words: str) -> tuple[int, str, str]:
    """Exit code, what was said, what was complained about."""
    said, wrong = StringIO(), StringIO()
    try:
        call_command("verifyaudit", *words, stdout=said, stderr=wrong)
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue(), wrong.getvalue()
    return 0, said.getvalue(), wrong.getvalue()


def test_the_command_says_what_it_checked_and_what_to_remember() -> None:
    entries(1_200)
    seals.seal()
    entries(2)
    code, said, wrong = verify()
    assert (code, wrong) == (0, "")
    assert "2 seals over 1,200 entries checked. Not yet sealed: 2." in said
    assert f"Head: {seals.head()}" in said
    assert verify("--head", seals.head())[0] == 0


def test_the_command_fails_when_the_trail_is_broken() -> None:
    entries(10)
    seals.seal()
    remembered = seals.head()
    entries(10)
    seals.seal()
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = (SELECT max(id) FROM {ENTRIES})")
    code, _, wrong = verify()
    assert code == 1 and "Seal 2" in wrong and "1 entry missing" in wrong
    with owner():
        sql(f"DELETE FROM {SEALS} WHERE n = 1")
    assert verify()[0] == 1
    assert "cut off" in verify("--head", remembered)[2]


def test_another_key_is_another_failure(settings: Settings) -> None:
    settings.AUDIT_KEYS = ["one " * 20]
    entries(1)
    seals.seal()
    settings.AUDIT_KEYS = ["two " * 20]
    code, _, wrong = verify()
    assert code == 3 and "another key" in wrong and "AUDIT_KEY" in wrong


def test_only_what_was_sealed_since_a_day_is_checked() -> None:
    entries(5)
    seals.seal(now=timezone.now() - timedelta(days=9))
    entries(3)
    seals.seal()
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = (SELECT min(id) FROM {ENTRIES})")
    since = str((timezone.now() - timedelta(days=2)).date())
    code, said, _ = verify("--since", since)
    assert code == 0 and "1 seals over 3 entries" in said
    assert verify()[0] == 1
    with owner():
        sql(f"UPDATE {SEALS} SET from_id = from_id + 1 WHERE n = 2")
    assert verify("--since", since)[0] == 1


@pytest.mark.parametrize(
    "words", [("--since", "yesterday"), ("--since", "2026-13-01"), ("--head", "7:zz"), ("--head",)]
)
def test_nonsense_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        call_command("verifyaudit", *words)


def test_a_check_is_made_every_day() -> None:
    entries(4)
    tasks.seal()
    tasks.check_audit()
    (made,) = AuditCheck.objects.all()
    assert (made.seals, made.entries, made.trouble, made.head) == (1, 4, [], seals.head())
    assert made.finished_at is not None and made.asked_by is None
    tasks.check_audit()
    assert AuditCheck.objects.count() == 1
    verification.run_due_check(now=timezone.now() + timedelta(hours=25))
    assert AuditCheck.objects.count() == 2


def test_the_end_that_a_check_saw_must_still_be_there_at_the_next() -> None:
    entries(4)
    seals.seal()
    verification.run_due_check()
    entries(4)
    seals.seal()
    with owner():
        sql(f"DELETE FROM {ENTRIES}")
        sql(f"DELETE FROM {SEALS}")
    verification.run_due_check(now=timezone.now() + timedelta(hours=25))
    last = verification.latest_check()
    assert last is not None and "cut off" in last.trouble[0]


def test_the_log_remembers_the_end_and_says_when_it_is_broken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entries(4)
    seals.seal()
    with caplog.at_level(logging.INFO, "backoffice.audit"):
        verification.run_due_check()
        assert seals.head() in caplog.text
        assert "broken" not in caplog.text
        with owner():
            sql(f"DELETE FROM {ENTRIES}")
        verification.run_due_check(now=timezone.now() + timedelta(hours=25))
    assert caplog.records[-1].levelname == "ERROR"
    assert "broken: 1 findings" in caplog.text


def test_what_an_auditor_asked_for_is_checked_and_what_was_cut_short_again() -> None:
    verification.run_due_check()
    AuditCheck.objects.create(asked_by=staff("auditor"))
    made = verification.run_due_check()
    assert made is not None and made.asked_by is not None
    AuditCheck.objects.filter(pk=made.pk).update(finished_at=None)
    again = verification.run_due_check()
    assert again == made and again.finished_at is not None
    assert verification.run_due_check() is None


@pytest.mark.django_db(transaction=True)
def test_one_process_checks_at_a_time() -> None:
    held, go = threading.Event(), threading.Event()

    def busy() -> None:
        try:
            with transaction.atomic():
                sql("SELECT pg_advisory_xact_lock(%s)", verification.LOCK)
                held.set()
                assert go.wait(20)
        finally:
            connection.close()

    other = threading.Thread(target=busy)
    other.start()
    assert held.wait(20)
    assert verification.run_due_check() is None
    go.set()
    other.join()
    assert verification.run_due_check() is not None


def test_progress_is_told_every_hundred_seals() -> None:
    """A hundred seals at a time, whatever is in them."""
    for _ in range(verification.STEP + 5):
        entries(1)
        seals.seal()
    told: list[Any] = []
    found = verification.check_chain(progress=lambda now: told.append(now.seals))
    assert told == [verification.STEP] and found.seals == verification.STEP + 5
    assert json.dumps(found.findings) == "[]"
    assert AuditSeal.objects.count() == found.seals
