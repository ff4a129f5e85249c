"""Another team's key: nothing is stored, nothing is found gone, nothing is sent, and it is said.

Five patients of another team had been added, and all of ours flagged as gone, with status "ok".
The sandbox has two teams, each with its own key.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from backoffice import sync
from backoffice.celery import QUEUES
from backoffice.core import heartbeats, service_client, service_team
from backoffice.devtools import launcher
from backoffice.devtools.embedded import free_port
from backoffice.management.commands.sync import LOOKUP_TYPES, SYNCED_LISTS
from backoffice.models import CommandRecord, Lookup, SyncRun
from orders.models import Order
from patients.models import Patient
from patients.sync import USERS
from tests.chaos.installation import Installation
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.keys import OTHER_KEY, OUR_KEY, UseKey
from tests.sync.house import SYNC, House, end

TOKEN = "made-up-token-of-a-monitor"


def read_everything() -> None:
    """All lists and all look-ups, each once."""
    for synced_list in SYNCED_LISTS:
        sync.request_run(synced_list)
        sync.work_on_run(synced_list)
    Lookup.objects.update(due_at=None)
    for kind, keys in (("users", Patient), ("orders", Order)):
        sync.schedule_lookups(kind, keys.objects.values_list("pk", flat=True))
    sync.run_due_lookups(LOOKUP_TYPES, seconds=30)


def status(settings: Settings) -> dict[str, Any]:
    settings.HEALTH_TOKEN = TOKEN
    for queue in QUEUES:
        heartbeats.record_heartbeat(queue, "worker@here")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer: dict[str, Any] = Client().get("/health/status", headers=headers).json()
    return answer


def is_said(settings: Settings) -> bool:
    found = status(settings)
    said = any(words.startswith(service_team.ANOTHER_TEAM) for words in found["reasons"])
    assert found["status"] == "failing" or not said
    return said


def test_another_teams_key_stores_and_flags_nothing(
    desk: Desk, use_key: UseKey, house: House, settings: Settings
) -> None:
    before = house.rows()
    assert not is_said(settings)
    use_key(OTHER_KEY)
    with service_client.service() as client:
        assert client.users.list(0, 1).records, "the other team has patients of its own"
    use_key(OTHER_KEY)
    read_everything()
    assert house.rows() == before
    assert not Patient.objects.exclude(missing_since=None).exists()
    runs = SyncRun.objects.exclude(state=SyncRun.State.DONE)
    assert {run.resource for run in runs} == {synced_list.resource for synced_list in SYNCED_LISTS}
    for run in runs:
        assert run.error.startswith(service_team.ANOTHER_TEAM), run
    assert is_said(settings)


def test_our_key_again_goes_on_by_itself(desk: Desk, use_key: UseKey, settings: Settings) -> None:
    use_key(OTHER_KEY)
    read_everything()
    assert is_said(settings)
    use_key(OUR_KEY)
    for synced_list in SYNCED_LISTS:
        SyncRun.objects.filter(state=SyncRun.State.DUE).update(due_at=Now())
        sync.work_on_run(synced_list)
    assert not is_said(settings)
    assert not SyncRun.objects.exclude(state=SyncRun.State.DONE).exists()


def test_a_request_is_not_sent_with_another_teams_key(desk: Desk, use_key: UseKey) -> None:
    order = waiting(desk)
    desk.fill(desk.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    row = desk.newest()
    last = desk.sandbox.control("writes")["last"]
    use_key(OTHER_KEY)
    desk.deliver()
    row.refresh_from_db()
    assert (row.state, row.hindrance) == ("waiting", service_team.ANOTHER_TEAM)
    CommandRecord.objects.filter(pk=row.pk).update(state="uncertain", doubted=True)
    desk.later()
    row.refresh_from_db()
    assert row.state == "uncertain", "another team's service proves nothing"
    assert desk.sandbox.control("writes")["last"] == last
    CommandRecord.objects.filter(pk=row.pk).update(state="waiting", doubted=False)
    use_key(OUR_KEY)
    desk.later()
    row.refresh_from_db()
    assert row.state == "done"


def test_an_outage_after_a_restart_lets_nobody_wait_in_vain(desk: Desk, use_key: UseKey) -> None:
    """A worker that has just started cannot ask whose key it has, and a person decides after some
    tries, as in a worker that has run for long."""
    order = waiting(desk)
    desk.fill(desk.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    row = desk.newest()
    CommandRecord.objects.filter(pk=row.pk).update(state="uncertain", doubted=True)
    for path in ("^/v2/user/?$", "^/v3/orders/?$", "^/v3/order/"):
        desk.sandbox.prepare_answer(path, body={}, status=503, times=None)
    use_key(OUR_KEY)
    states = []
    for _ in range(7):
        desk.later()
        row.refresh_from_db()
        states.append(row.state)
    assert states == ["uncertain"] * 5 + ["undecided"] * 2


@pytest.mark.parametrize("words", [(), ("--full",), ("users",), ("look-ups",)])
def test_sync_command_stops_with_a_clear_error(
    desk: Desk, house: House, settings: Settings, words: tuple[str, ...]
) -> None:
    before = house.rows()
    process = house.start(*SYNC, *words, SERVICE_API_KEY=OTHER_KEY)
    try:
        assert process.wait(120) == 1
    finally:
        end(process)
    assert service_team.ANOTHER_TEAM in house.said()
    assert "Traceback" not in house.said()
    assert house.rows() == before
    assert is_said(settings)


def test_a_team_without_users_and_orders_empties_nothing(
    desk: Desk, use_key: UseKey, house: House, settings: Settings
) -> None:
    """A new team's key: it lists nothing, so everything of ours would be gone."""
    before = house.rows()
    empty = {"users": [], "orders": [], "total": 0, "page": 1, "size": 1, "offset": 0, "limit": 1}
    for path in ("^/v2/user/?$", "^/v3/orders/?$"):
        desk.sandbox.prepare_answer(path, body=empty, times=None)
    use_key(OTHER_KEY)
    read_everything()
    assert house.rows() == before
    assert is_said(settings)


def test_a_page_with_another_teams_patient_is_refused(
    desk: Desk, use_key: UseKey, house: House
) -> None:
    """The check was right, and the key was given to another team afterwards."""
    use_key(OUR_KEY)
    before = house.rows()
    service_team.verified_service()
    foreign = {"team_id": "7ea00000-0000-4000-8000-000000000002"}
    desk.sandbox.prepare_answer("^/v2/user/?$", merge={"users": {"3": foreign}})
    sync.request_run(USERS)
    run = sync.work_on_run(USERS)
    assert run is not None and run.error.startswith(service_team.ANOTHER_TEAM)
    assert house.rows() == before


def test_start_stops_with_one_line(desk: Desk, house: House) -> None:
    """What `./run up` asks after its migrations, before any worker is there."""
    launcher.check_team(house.environment())
    with pytest.raises(launcher.LauncherError) as caught:
        launcher.check_team(house.environment(SERVICE_API_KEY=OTHER_KEY))
    words = str(caught.value)
    assert words.startswith(service_team.ANOTHER_TEAM) and len(words.splitlines()) == 1
    assert caught.value.code == 1


def test_start_goes_on_while_the_service_is_silent(
    desk: Desk, house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    house.service_url = f"http://127.0.0.1:{free_port()}"
    launcher.check_team(house.environment(SERVICE_API_KEY=OTHER_KEY))
    assert "could not be checked" in capsys.readouterr().out


def test_run_up_ends_before_any_worker_starts(desk: Desk, house: House) -> None:
    servers = {"DATABASE_URL": house.database_url, "REDIS_URL": os.environ["REDIS_URL"]}
    settings = {**servers, "SERVICE_API_KEY": OTHER_KEY}
    # Where every user may enter: elsewhere the launcher leaves a folder outside.
    with tempfile.TemporaryDirectory(prefix="bo-") as folder:
        installed = Installation(Path(folder), desk.sandbox.url, free_port(), settings)
        installed.start()
        try:
            assert installed.process is not None
            assert installed.process.wait(120) == 1, installed.said()
        finally:
            installed.end()
        said = installed.said()
    assert said.count(service_team.ANOTHER_TEAM) == 1
    assert "Traceback" not in said and "Starting workers" not in said
