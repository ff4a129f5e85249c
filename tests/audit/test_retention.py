"""Old entries go, and nothing else; what remains proves what was there."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.utils import timezone
from pytest_django import Settings

from backoffice.audit import retention, seals, verification
from backoffice.audit.models import AuditEntry, AuditSeal
from backoffice.operations import tasks
from tests.audit.trail import ENTRIES, SEALS, entries, keeping, owner, refused, sql

pytestmark = pytest.mark.django_db


def years_ago(years: float) -> datetime:
    return timezone.now() - timedelta(days=365.25 * years)


@pytest.fixture
def trail(settings: Settings) -> None:
    """Two thousand entries of seven years ago, 300 of five years ago, 40 of today."""
    settings.AUDIT_KEEP_YEARS = 6
    for count, years in ((2_000, 7), (300, 5), (40, 0)):
        entries(count, at=f"now() - interval '{years} years 2 days'")
        seals.seal(now=years_ago(years + 0.003))


def said(*words: str) -> str:
    out = StringIO()
    call_command("retireaudit", *words, stdout=out)
    return out.getvalue()


def test_a_dry_run_says_how_many_and_takes_none(trail: None) -> None:
    assert "2,000 entries under 2 seals are older than 6 years." in said("--dry-run")
    assert AuditEntry.objects.count() == 2_340


def test_what_has_grown_old_goes_and_the_rest_stays(trail: None) -> None:
    assert "2,000 taken away." in said()
    assert AuditEntry.objects.count() == 340
    found = verification.check_chain()
    assert (found.entries, found.removed, found.trouble) == (340, 2_000, [])
    assert AuditSeal.objects.filter(removal=True).count() == 2
    assert retention.remove_expired() == 0
    entries(5)
    seals.seal()
    assert verification.check_chain().trouble == []


def test_it_goes_on_where_it_was_stopped(trail: None) -> None:
    assert retention.remove_expired(seconds=0) == 1_000
    assert verification.check_chain().trouble == []
    assert retention.removal_backlog() == retention.RemovalBacklog(1, 1_000)
    tasks.retire_audit()
    assert AuditEntry.objects.count() == 340
    assert verification.check_chain().trouble == []


def test_a_step_that_fails_took_nothing(trail: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(made: AuditSeal) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(seals, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        retention.remove_expired()
    assert AuditEntry.objects.count() == 2_340
    monkeypatch.undo()
    assert retention.remove_expired() == 2_000


@pytest.mark.parametrize(("name", "value"), [("AUDIT_HOLD", True), ("AUDIT_KEEP_YEARS", 0)])
def test_a_hold_keeps_everything(trail: None, settings: Settings, name: str, value: object) -> None:
    setattr(settings, name, value)
    assert retention.remove_expired() == 0
    assert AuditEntry.objects.count() == 2_340
    if name == "AUDIT_HOLD":
        with pytest.raises(CommandError, match="AUDIT_HOLD"):
            said()
    else:
        assert "for ever" in said()


def test_what_does_not_fit_its_seal_stays(trail: None, caplog: pytest.LogCaptureFixture) -> None:
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id = (SELECT from_id + 7 FROM {SEALS} WHERE n = 2)")
    with pytest.raises(CommandError, match="the others stay"):
        said()
    assert AuditEntry.objects.count() == 1_339
    assert "do not fit" in caplog.text or "does not fit" in caplog.text


def test_the_database_lets_nothing_younger_go(trail: None) -> None:
    """Whatever the setting in the environment says; and nothing that was not sealed."""
    entries(3, at="now() - interval '9 years'")
    sealed = _sealed()
    for years, young in (
        ("6", f"at > now() - interval '6 years' AND id <= {sealed}"),
        ("8", "true"),
        ("6", f"id > {sealed}"),
    ):
        refused(keeping(years), f"DELETE FROM {ENTRIES} WHERE {young}")
    refused(f"DELETE FROM {ENTRIES} WHERE at < now() - interval '6 years'")


def _sealed() -> int:
    return int(sql(f"SELECT max(to_id) FROM {SEALS}"))


def test_to_take_away_oneself_shows(trail: None) -> None:
    """With the setting that opens the trigger, but without the seal that says so."""
    with transaction.atomic():
        sql(keeping("6"))
        sql(f"DELETE FROM {ENTRIES} WHERE at < now() - interval '6 years'")
    assert verification.check_chain().troubles == 2


def test_what_was_taken_away_cannot_come_back(trail: None) -> None:
    retention.remove_expired()
    columns = "at, actor_kind, action, object_type, object_ids, patient_ids, route, request_id,"
    columns += " outcome, reason"
    sql(
        f"INSERT INTO {ENTRIES} (id, {columns}) SELECT 5 + (SELECT min(from_id) FROM {SEALS}),"
        f" {columns} FROM {ENTRIES} LIMIT 1"
    )
    assert "stand here again" in verification.check_chain().trouble[0]


def test_a_removal_before_its_time_shows_though_its_code_is_right(trail: None) -> None:
    """Somebody with the key at hand takes away what is not old."""
    retention.remove_expired()
    ours = AuditSeal.objects.get(removal=False, n=3)
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id BETWEEN %s AND %s", ours.from_id, ours.to_id)
    young = AuditSeal.objects.get(removal=False, n=4)
    with owner():
        sql(f"DELETE FROM {ENTRIES} WHERE id BETWEEN %s AND %s", young.from_id, young.to_id)
    retention._seal_removal([ours, young], 340)
    assert any("before they were old" in words for words in verification.check_chain().trouble)
