"""Seals: everything that was recorded, in order, once; and nobody's late commit is lost."""

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
from tests.audit.trail import ENTRIES, entries, owner, sql, undone


def ranges() -> list[tuple[int, int]]:
    rows = AuditSeal.objects.order_by("n").values_list("from_id", "to_id")
    return list(rows)


@pytest.mark.django_db
def test_everything_is_sealed_once_and_in_order() -> None:
    entries(2_300)
    assert seals.seal() == 2_300
    assert [one.rows for one in AuditSeal.objects.order_by("n")] == [1_000, 1_000, 300]
    found = ranges()
    assert all(later[0] == earlier[1] + 1 for earlier, later in pairwise(found))
    assert seals.seal() == 0
    entries(1)
    assert seals.seal() == 1
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.trouble) == (2_301, 0, [])
    assert checked.head == seals.head() != ""


@pytest.mark.django_db
def test_without_entries_there_is_nothing_to_seal() -> None:
    assert seals.seal() == 0
    assert verification.check_chain() == verification.CheckResult()
    assert seals.head() == ""


@pytest.mark.django_db
def test_what_is_not_sealed_yet_is_counted_and_no_trouble() -> None:
    entries(2)
    seals.seal()
    entries(3)
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.troubles) == (2, 3, 0)


@pytest.mark.django_db(transaction=True)
def test_an_id_of_an_insert_that_was_rolled_back_is_no_gap() -> None:
    entries(1)
    with undone():
        entries(1)
    entries(1)
    assert seals.seal() == 2
    assert verification.check_chain().troubles == 0


def in_thread(act: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
def test_what_commits_late_is_waited_for() -> None:
    """An entry that was numbered first commits last, as those of longer transactions do."""
    drawn, go = threading.Event(), threading.Event()

    def late() -> None:
        with transaction.atomic():
            entries(1)
            drawn.set()
            assert go.wait(20)

    writer = in_thread(late)
    assert drawn.wait(20)
    entries(1)
    assert seals.last_settled_id(patience=0.2) is None
    assert not AuditSeal.objects.exists()
    threading.Timer(0.3, go.set).start()
    assert seals.seal() == 2
    writer.join()
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.troubles) == (2, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_no_commit_among_many_is_lost_or_counted_as_tampering() -> None:
    chance = random.Random(7)
    ends = time.monotonic() + 4

    def write(luck: random.Random) -> None:
        while time.monotonic() < ends:
            try:
                with transaction.atomic():
                    entries(luck.randint(1, 3))
                    time.sleep(luck.random() * 0.03)
                    if luck.random() < 0.2:
                        raise RuntimeError
            except RuntimeError:
                continue

    writers = [in_thread(lambda: write(random.Random(chance.random()))) for _ in range(6)]
    sealed = 0
    while time.monotonic() < ends:
        sealed += seals.seal()
        assert verification.check_chain().trouble == []
    for writer in writers:
        writer.join()
    sealed += seals.seal()
    assert sealed == AuditEntry.objects.count() > 100
    checked = verification.check_chain()
    assert (checked.entries, checked.unsealed, checked.trouble) == (sealed, 0, [])


@pytest.mark.django_db(transaction=True)
def test_two_who_seal_at_once_make_one_chain() -> None:
    entries(5_000)
    workers = [in_thread(seals.seal) for _ in range(4)]
    for worker in workers:
        worker.join()
    checked = verification.check_chain()
    assert (checked.seals, checked.entries, checked.trouble) == (5, 5_000, [])


@pytest.mark.django_db
@pytest.mark.parametrize(
    "choice",
    [
        "TimeZone = 'Asia/Kolkata'",
        "DateStyle = 'German, DMY'",
        "IntervalStyle = 'iso_8601'",
        "bytea_output = 'escape'",
        "extra_float_digits = -5",
        "search_path = public, pg_catalog",
    ],
)
def test_the_digest_is_the_same_whatever_a_session_prefers(choice: str) -> None:
    entries(30)
    digest = f"SELECT encode({seals.DIGEST}, 'hex') FROM {ENTRIES} AS e"
    before = sql(digest)
    sql(f"SET LOCAL {choice}")
    assert sql(digest) == before


@pytest.mark.django_db
@pytest.mark.parametrize("column", [field.attname for field in AuditEntry._meta.concrete_fields])
def test_every_column_is_under_the_seal(column: str) -> None:
    """A column that is added needs a form of the text with it."""
    entries(1)
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
    with owner():
        sql(f"UPDATE {ENTRIES} SET {column} = {other}")
    assert verification.check_chain().troubles


def _keep(settings: Settings, **values: Any) -> None:
    for name, value in values.items():
        setattr(settings, name, value)


ONE, TWO, THREE = ("one " * 20, "two " * 20, "three " * 20)


@pytest.mark.django_db
def test_a_key_of_its_own_outlives_the_secret_key(settings: Settings) -> None:
    _keep(settings, AUDIT_KEYS=[ONE], SECRET_KEY=TWO)
    entries(1)
    seals.seal()
    settings.SECRET_KEY = THREE
    assert verification.check_chain() == verification.CheckResult(
        seals=1, entries=1, head=seals.head()
    )


@pytest.mark.django_db
def test_another_key_is_no_tampering_but_is_said(settings: Settings) -> None:
    _keep(settings, AUDIT_KEYS=[], SECRET_KEY=ONE, SECRET_KEY_FALLBACKS=[])
    entries(1)
    seals.seal()
    settings.SECRET_KEY = TWO
    checked = verification.check_chain()
    assert (checked.unknown_key, checked.trouble) == (1, [])
    # What the entries say is checked without a key.
    entries(1)
    seals.seal()
    assert (verification.check_chain().unknown_key, verification.check_chain().trouble) == (1, [])
    settings.SECRET_KEY_FALLBACKS = [ONE]
    assert (verification.check_chain().unknown_key, verification.check_chain().trouble) == (0, [])


@pytest.mark.django_db
def test_a_stranger_cannot_go_on_with_the_chain(settings: Settings) -> None:
    _keep(settings, AUDIT_KEYS=[ONE])
    entries(1)
    seals.seal()
    settings.AUDIT_KEYS = [TWO]
    entries(1)
    seals.seal()
    settings.AUDIT_KEYS = [ONE]
    assert "a key that is not ours" in verification.check_chain().trouble[0]
    settings.AUDIT_KEYS = [THREE, TWO, ONE]
    assert verification.check_chain().trouble == []


@pytest.mark.django_db
def test_indexes_are_tidied_by_whoever_seals() -> None:
    entries(50)
    seals.flush_index_pending_lists()
    assert AuditEntry.objects.filter(object_ids__contains=["7"]).count() == 1
