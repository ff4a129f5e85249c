"""Old entries are removed, and only those; the rest still proves what was there."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, transaction
from django.utils import timezone
from pytest_django import Settings

from backoffice.audit import retention, seals, verification
from backoffice.audit.models import AuditEntry, AuditSeal
from backoffice.operations import tasks
from tests.audit.trail import (
    ENTRIES,
    SEALS,
    as_table_owner,
    assert_refused,
    create_entries,
    set_keep_years,
    sql,
)

pytestmark = pytest.mark.django_db


def years_ago(years: float) -> datetime:
    return timezone.now() - timedelta(days=365.25 * years)


@pytest.fixture
def aged_log(settings: Settings) -> None:
    """Two thousand entries of seven years ago, 300 of five years ago, 40 of today."""
    settings.AUDIT_KEEP_YEARS = 6
    for count, years in ((2_000, 7), (300, 5), (40, 0)):
        create_entries(count, at=f"now() - interval '{years} years 2 days'")
        seals.seal(now=years_ago(years + 0.003))


def retire(*words: str) -> str:
    out = StringIO()
    call_command("retireaudit", *words, stdout=out)
    return out.getvalue()


def test_dry_run_prints_count_and_removes_nothing(aged_log: None) -> None:
    assert "2,000 entries under 2 seals are older than 6 years." in retire("--dry-run")
    assert AuditEntry.objects.count() == 2_340


def test_only_expired_entries_are_removed(aged_log: None) -> None:
    assert "2,000 removed." in retire()
    assert AuditEntry.objects.count() == 340
    found = verification.check_chain()
    assert (found.entries, found.removed, found.trouble) == (340, 2_000, [])
    assert AuditSeal.objects.filter(removal=True).count() == 2
    assert retention.remove_expired() == 0
    create_entries(5)
    seals.seal()
    assert verification.check_chain().trouble == []


def test_interrupted_removal_continues(aged_log: None) -> None:
    assert retention.remove_expired(seconds=0) == 1_000
    assert verification.check_chain().trouble == []
    assert retention.removal_backlog() == retention.RemovalBacklog(1, 1_000)
    tasks.archive_old_audit_entries()
    assert AuditEntry.objects.count() == 340
    assert verification.check_chain().trouble == []


REFUSE_REMOVAL_SEALS = f"""
CREATE FUNCTION refuse_seal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 RAISE 'the seal of the removal cannot be written';
END $$;
CREATE TRIGGER refuse_seal BEFORE INSERT ON {SEALS} FOR EACH ROW WHEN (NEW.removal)
 EXECUTE FUNCTION refuse_seal();
"""


def test_failed_step_removes_nothing(aged_log: None) -> None:
    sql(REFUSE_REMOVAL_SEALS)
    with pytest.raises(DatabaseError, match="seal of the removal"):
        retention.remove_expired()
    assert AuditEntry.objects.count() == 2_340
    sql(f"DROP TRIGGER refuse_seal ON {SEALS}")
    assert retention.remove_expired() == 2_000


@pytest.mark.parametrize(("name", "value"), [("AUDIT_HOLD", True), ("AUDIT_KEEP_YEARS", 0)])
def test_hold_keeps_all_entries(
    aged_log: None, settings: Settings, name: str, value: object
) -> None:
    setattr(settings, name, value)
    assert retention.remove_expired() == 0
    assert AuditEntry.objects.count() == 2_340
    if name == "AUDIT_HOLD":
        with pytest.raises(CommandError, match="AUDIT_HOLD"):
            retire()
    else:
        assert "forever" in retire()


def test_entries_that_do_not_match_their_seal_stay(
    aged_log: None, caplog: pytest.LogCaptureFixture
) -> None:
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = (SELECT from_id + 7 FROM {SEALS} WHERE n = 2)")
    with pytest.raises(CommandError, match="the other entries stay"):
        retire()
    assert AuditEntry.objects.count() == 1_339
    assert "what has grown old does not fit its seals" in caplog.text


def test_database_refuses_to_delete_younger_entries(aged_log: None) -> None:
    """This holds for any setting in the environment, and for entries that are not sealed."""
    create_entries(3, at="now() - interval '9 years'")
    last_sealed = _last_sealed_id()
    for years, condition in (
        ("6", f"at > now() - interval '6 years' AND id <= {last_sealed}"),
        ("8", "true"),
        ("6", f"id > {last_sealed}"),
    ):
        assert_refused(set_keep_years(years), f"DELETE FROM {ENTRIES} WHERE {condition}")
    assert_refused(f"DELETE FROM {ENTRIES} WHERE at < now() - interval '6 years'")


def _last_sealed_id() -> int:
    return int(sql(f"SELECT max(to_id) FROM {SEALS}"))


def test_manual_deletion_is_detected(aged_log: None) -> None:
    """The setting opens the trigger, but there is no seal of the removal."""
    with transaction.atomic():
        sql(set_keep_years("6"))
        sql(f"DELETE FROM {ENTRIES} WHERE at < now() - interval '6 years'")
    assert verification.check_chain().troubles == 2


def test_reinserted_removed_entry_is_detected(aged_log: None) -> None:
    retention.remove_expired()
    columns = "at, actor_kind, action, object_type, object_ids, patient_ids, route, request_id,"
    columns += " outcome, reason"
    sql(
        f"INSERT INTO {ENTRIES} (id, {columns}) SELECT 5 + (SELECT min(from_id) FROM {SEALS}),"
        f" {columns} FROM {ENTRIES} LIMIT 1"
    )
    assert "are present again" in verification.check_chain().trouble[0]


def test_early_removal_with_valid_code_is_detected(aged_log: None) -> None:
    """A person with the key removes entries that are not old."""
    retention.remove_expired()
    old_seal = AuditSeal.objects.get(removal=False, n=3)
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id BETWEEN %s AND %s", old_seal.from_id, old_seal.to_id)
    new_seal = AuditSeal.objects.get(removal=False, n=4)
    with as_table_owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id BETWEEN %s AND %s", new_seal.from_id, new_seal.to_id)
    retention._seal_removal([old_seal, new_seal], 340)
    assert any("before their time" in words for words in verification.check_chain().trouble)
