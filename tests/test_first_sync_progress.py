"""The first sync is complete when every list was read and no lookup is left."""

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


def database_url() -> str:
    """Return the URL of the test database, for a connection outside Django."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))


def create_run(resource: str, state: str = "done", **values: Any) -> None:
    SyncRun.objects.create(resource=resource, state=state, **{"full": True, **values})


def test_every_list_is_known() -> None:
    assert {synced_list.resource for synced_list in SYNCED_LISTS if synced_list.full} == set(LISTS)


def test_unread_list_keeps_first_sync_open() -> None:
    for resource in LISTS[1:]:
        create_run(resource, fetched=10)
    create_run(LISTS[0], full=False)
    assert not SyncProgress.read(database_url()).over
    create_run(LISTS[0], state="running", fetched=5, total=20)
    sync_progress = SyncProgress.read(database_url())
    assert not sync_progress.over
    assert sync_progress.rows == 10 * len(LISTS[1:]) + 5
    assert sync_progress.parts == [f"{LISTS[0]} 5 of 20"]
    SyncRun.objects.update(state="done")
    assert SyncProgress.read(database_url()).over


def test_failed_run_is_reported_until_a_later_run() -> None:
    for resource in LISTS[1:]:
        create_run(resource)
    create_run(LISTS[0], state="failed")
    assert SyncProgress.read(database_url()).parts == [f"failed: {LISTS[0]}, see System"]
    create_run(LISTS[0])
    create_run(LISTS[0], state="running")
    assert SyncProgress.read(database_url()).over


def test_pending_lookups_keep_first_sync_open() -> None:
    for resource in LISTS:
        create_run(resource)
    Lookup.objects.create(kind="a", key="1", looked_at=Now())
    Lookup.objects.create(kind="a", key="2")
    Lookup.objects.create(kind="a", key="3", due_at=None, error="refused")
    sync_progress = SyncProgress.read(database_url())
    assert (sync_progress.looked_up, sync_progress.left, sync_progress.failing) == (1, 1, 1)
    assert sync_progress.parts == ["lookups left: 1"]
    assert not sync_progress.over and sync_progress.nearly_over
    Lookup.objects.filter(key="2").update(looked_at=timezone.now())
    assert SyncProgress.read(database_url()).over


def test_completion_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    first = FirstSync(database_url())
    assert not first.over
    messages: list[str] = []
    create_run(LISTS[0], state="running", fetched=1200, total=2000)
    first.show(messages.append)
    assert f"{LISTS[0]} 1,200 of 2,000" in capsys.readouterr().out
    SyncRun.objects.all().delete()
    for resource in LISTS:
        create_run(resource, fetched=1000)
    first.next_read_at = 0
    first.show(messages.append)
    first.show(messages.append)
    assert [line.split(" rows")[0] for line in messages] == [
        "Ready: all pages have their data.",
        f"First sync: {len(LISTS)},000",
    ]
    assert FirstSync(database_url()).over


def test_later_start_reports_catching_up(capsys: pytest.CaptureFixture[str]) -> None:
    for resource in LISTS:
        create_run(resource, fetched=1000)
    Lookup.objects.create(kind="a", key="1")
    later = FirstSync(database_url())
    assert not later.over
    messages: list[str] = []
    later.show(messages.append)
    assert "lookups left: 1" in capsys.readouterr().out
    Lookup.objects.update(looked_at=timezone.now())
    later.next_read_at = 0
    later.show(messages.append)
    assert [line.split(" in ")[0] for line in messages] == ["Catching up: 1 rows"]


def test_total_smaller_than_rows_is_hidden() -> None:
    create_run(LISTS[0], state="running", fetched=600, total=137)
    assert SyncProgress.read(database_url()).parts == [f"{LISTS[0]} 600"]
    SyncRun.objects.update(total=600)
    assert SyncProgress.read(database_url()).parts == [f"{LISTS[0]} 600 of 600"]
