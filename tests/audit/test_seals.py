"""Seals cover every entry once and in order, including late commits."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from backoffice.audit import seals, verification
from backoffice.audit.models import AuditEntry, AuditSeal
from tests.audit.trail import ENTRIES, as_table_owner, create_entries, rolled_back, sql


def sealed_ranges() -> list[tuple[int, int]]:
    rows = AuditSeal.objects.order_by("n").values_list("from_id", "to_id")
    return list(rows)


@pytest.mark.django_db
def test_all_entries_are_sealed_once_in_order() -> None:
    create_entries(2_300)
    assert seals.seal() == 2_300
    assert [one.rows for one in AuditSeal.objects.order_by("n")] == [1_000, 1_000, 300]
    found = sealed_ranges()
    assert all(later[0] == earlier[1] + 1 for earlier, later in pairwise(found))
    assert seals.seal() == 0
    create_entries(1)
    assert seals.seal() == 1
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.trouble) == (2_301, 0, [])
    assert checked.head == seals.head() != ""


@pytest.mark.django_db
def test_sealing_without_entries_does_nothing() -> None:
    assert seals.seal() == 0
    assert verification.check_chain() == verification.CheckResult()
    assert seals.head() == ""


@pytest.mark.django_db
def test_unsealed_entries_are_counted_without_finding() -> None:
    create_entries(2)
    seals.seal()
    create_entries(3)
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.troubles) == (2, 3, 0)


@pytest.mark.django_db(transaction=True)
def test_rolled_back_id_is_no_gap() -> None:
    create_entries(1)
    with rolled_back():
        create_entries(1)
    create_entries(1)
    assert seals.seal() == 2
    assert verification.check_chain().troubles == 0


def run_in_thread(action: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            action()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
def test_sealing_waits_for_late_commit() -> None:
    """An entry with an earlier number commits last, as in longer transactions."""
    is_numbered, release = threading.Event(), threading.Event()

    def write_late() -> None:
        with transaction.atomic():
            create_entries(1)
            is_numbered.set()
            assert release.wait(20)

    writer = run_in_thread(write_late)
    assert is_numbered.wait(20)
    create_entries(1)
    assert seals.last_settled_id(wait_seconds=0.2) is None
    assert not AuditSeal.objects.exists()
    threading.Timer(0.3, release.set).start()
    assert seals.seal() == 2
    writer.join()
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.troubles) == (2, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_concurrent_commits_are_all_sealed_without_finding() -> None:
    seeds = random.Random(7)
    deadline = time.monotonic() + 4

    def write(rng: random.Random) -> None:
        while time.monotonic() < deadline:
            try:
                with transaction.atomic():
                    create_entries(rng.randint(1, 3))
                    time.sleep(rng.random() * 0.03)
                    if rng.random() < 0.2:
                        raise RuntimeError
            except RuntimeError:
                continue

    writers = [run_in_thread(lambda: write(random.Random(seeds.random()))) for _ in range(6)]
    sealed = 0
    while time.monotonic() < deadline:
        sealed += seals.seal()
        assert verification.check_chain().trouble == []
    for writer in writers:
        writer.join()
    sealed += seals.seal()
    assert sealed == AuditEntry.objects.count() > 100
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.trouble) == (sealed, 0, [])


@pytest.mark.django_db(transaction=True)
def test_concurrent_sealing_makes_one_chain() -> None:
    create_entries(5_000)
    workers = [run_in_thread(seals.seal) for _ in range(4)]
    for worker in workers:
        worker.join()
    checked = verification.check_chain()
    assert (checked.seals, checked.entries, checked.trouble) == (5, 5_000, [])


@pytest.mark.django_db
@pytest.mark.parametrize(
    "session_setting",
    [
        "TimeZone = 'Asia/Kolkata'",
        "DateStyle = 'German, DMY'",
        "IntervalStyle = 'iso_8601'",
        "bytea_output = 'escape'",
        "extra_float_digits = -5",
        "search_path = public, pg_catalog",
    ],
)
def test_digest_is_independent_of_session_settings(session_setting: str) -> None:
    create_entries(30)
    digest = f"SELECT encode({seals.DIGEST}, 'hex') FROM {ENTRIES} AS e"
    before = sql(digest)
    sql(f"SET LOCAL {session_setting}")
    assert sql(digest) == before


@pytest.mark.django_db
@pytest.mark.parametrize("column", [field.attname for field in AuditEntry._meta.concrete_fields])
def test_every_column_is_covered_by_the_seal(column: str) -> None:
    """A new column needs a new form of the sealed text."""
    create_entries(1)
    seals.seal()
    other = {
        "id": "id - 1",
        "at": "at + interval '1 microsecond'",
        "actor_id": "7",
        "object_ids": "object_ids || 'x'::text",
        "patient_ids": "'{}'",
        "ip": "'192.0.2.8'",
        "row_count": "0",
        "before": "'{}'",
        "after": "'null'",
    }.get(column, f"{column} || ' '")
    with as_table_owner():
        sql(f"UPDATE {ENTRIES} SET {column} = {other}")
    assert verification.check_chain().troubles


def _set(settings: Settings, **values: Any) -> None:
    for name, value in values.items():
        setattr(settings, name, value)


KEY_ONE, KEY_TWO, KEY_THREE = ("one " * 20, "two " * 20, "three " * 20)


@pytest.mark.django_db
def test_audit_key_is_independent_of_secret_key(settings: Settings) -> None:
    _set(settings, AUDIT_KEYS=[KEY_ONE], SECRET_KEY=KEY_TWO)
    create_entries(1)
    seals.seal()
    settings.SECRET_KEY = KEY_THREE
    assert verification.check_chain() == verification.CheckResult(
        seals=1, entries=1, head=seals.head()
    )


@pytest.mark.django_db
def test_unknown_key_is_reported_but_no_tampering(settings: Settings) -> None:
    _set(settings, AUDIT_KEYS=[], SECRET_KEY=KEY_ONE, SECRET_KEY_FALLBACKS=[])
    create_entries(1)
    seals.seal()
    settings.SECRET_KEY = KEY_TWO
    checked = verification.check_chain()
    assert (checked.unknown_key, checked.trouble) == (1, [])
    # The content of entries is checked without a key.
    create_entries(1)
    seals.seal()
    assert (verification.check_chain().unknown_key, verification.check_chain().trouble) == (1, [])
    settings.SECRET_KEY_FALLBACKS = [KEY_ONE]
    assert (verification.check_chain().unknown_key, verification.check_chain().trouble) == (0, [])


@pytest.mark.django_db
def test_chain_cannot_be_continued_with_another_key(settings: Settings) -> None:
    _set(settings, AUDIT_KEYS=[KEY_ONE])
    create_entries(1)
    seals.seal()
    settings.AUDIT_KEYS = [KEY_TWO]
    create_entries(1)
    seals.seal()
    settings.AUDIT_KEYS = [KEY_ONE]
    assert "a key that is not ours" in verification.check_chain().trouble[0]
    settings.AUDIT_KEYS = [KEY_THREE, KEY_TWO, KEY_ONE]
    assert verification.check_chain().trouble == []


@pytest.mark.django_db
def test_sealing_flushes_pending_index_lists() -> None:
    create_entries(50)
    seals.flush_index_pending_lists()
    assert AuditEntry.objects.filter(object_ids__contains=["7"]).count() == 1
