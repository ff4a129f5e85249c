"""The first sync is over when every list was read to its end and nothing is left to look up."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from backoffice.devtools.progress import LISTS, FirstSync, SyncProgress
from backoffice.management.commands.sync import SYNCED_LISTS
from backoffice.sync.models import Lookup, SyncRun

pytestmark = pytest.mark.django_db(transaction=True)


def address() -> str:
    """The test database, for a connection that is not Django's."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))


def run(resource: str, state: str = "done", **values: Any) -> None:
    SyncRun.objects.create(resource=resource, state=state, **{"full": True, **values})


def test_every_list_is_known() -> None:
    assert {synced_list.resource for synced_list in SYNCED_LISTS if synced_list.full} == set(LISTS)


def test_a_list_that_was_not_walked_yet_keeps_it_open() -> None:
    for resource in LISTS[1:]:
        run(resource, fetched=10)
    run(LISTS[0], full=False)
    assert not SyncProgress.read(address()).over
    run(LISTS[0], state="running", fetched=5, total=20)
    standing = SyncProgress.read(address())
    assert not standing.over
    assert standing.rows == 10 * len(LISTS[1:]) + 5
    assert standing.parts == [f"{LISTS[0]} 5 of 20"]
    SyncRun.objects.update(state="done")
    assert SyncProgress.read(address()).over


def test_a_walk_that_failed_is_told_and_a_later_one_does_not_reopen_it() -> None:
    for resource in LISTS[1:]:
        run(resource)
    run(LISTS[0], state="failed")
    assert SyncProgress.read(address()).parts == [f"failed: {LISTS[0]}, see System"]
    run(LISTS[0])
    run(LISTS[0], state="running")
    assert SyncProgress.read(address()).over


def test_records_not_read_yet_keep_it_open() -> None:
    for resource in LISTS:
        run(resource)
    Lookup.objects.create(kind="a", key="1", looked_at=Now())
    Lookup.objects.create(kind="a", key="2")
    Lookup.objects.create(kind="a", key="3", due_at=None, error="refused")
    standing = SyncProgress.read(address())
    assert (standing.looked_up, standing.left, standing.failing) == (1, 1, 1)
    assert standing.parts == ["look-ups left: 1"]
    assert not standing.over and standing.nearly_over
    Lookup.objects.filter(key="2").update(looked_at=timezone.now())
    assert SyncProgress.read(address()).over


def test_the_terminal_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    first = FirstSync(address())
    assert not first.over
    said: list[str] = []
    run(LISTS[0], state="running", fetched=1200, total=2000)
    first.show(said.append)
    assert f"{LISTS[0]} 1,200 of 2,000" in capsys.readouterr().out
    SyncRun.objects.all().delete()
    for resource in LISTS:
        run(resource, fetched=1000)
    first.look_at = 0
    first.show(said.append)
    first.show(said.append)
    assert [line.split(" rows")[0] for line in said] == [f"First sync: {len(LISTS)},000"]
    assert FirstSync(address()).over


def test_a_later_start_catches_up(capsys: pytest.CaptureFixture[str]) -> None:
    for resource in LISTS:
        run(resource, fetched=1000)
    Lookup.objects.create(kind="a", key="1")
    later = FirstSync(address())
    assert not later.over
    said: list[str] = []
    later.show(said.append)
    assert "look-ups left: 1" in capsys.readouterr().out
    Lookup.objects.update(looked_at=timezone.now())
    later.look_at = 0
    later.show(said.append)
    assert [line.split(" in ")[0] for line in said] == ["Catching up: 1 rows"]


def test_no_total_is_smaller_than_its_rows() -> None:
    run(LISTS[0], state="running", fetched=600, total=137)
    assert SyncProgress.read(address()).parts == [f"{LISTS[0]} 600"]
    SyncRun.objects.update(total=600)
    assert SyncProgress.read(address()).parts == [f"{LISTS[0]} 600 of 600"]
