"""With the key of another team nothing is stored, marked as missing or sent, and it is reported.

Once such a key had added five patients of another team and marked all of ours as missing, with
status "ok". The sandbox has two teams, each with its own key.
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

from backoffice.celery import QUEUES
from backoffice.core import heartbeats, service_client, service_team
from backoffice.devtools import launcher
from backoffice.devtools.embedded import free_port
from backoffice.management.commands.sync import LOOKUP_TYPES, SYNCED_LISTS
from backoffice.outbox.models import CommandRecord
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import request_run, work_on_run
from orders.models import Order
from patients.models import Patient
from patients.sync import USERS
from tests.chaos.installation import Installation
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.keys import OTHER_KEY, OUR_KEY, UseKey
from tests.sync.back_office import SYNC, BackOffice, end

TOKEN = "made-up-token-of-a-monitor"


def read_all() -> None:
    """Run all lists and all lookups once."""
    for synced_list in SYNCED_LISTS:
        request_run(synced_list)
        work_on_run(synced_list)
    Lookup.objects.update(due_at=None)
    for kind, keys in (("users", Patient), ("orders", Order)):
        schedule_lookups(kind, keys.objects.values_list("pk", flat=True))
    run_due_lookups(LOOKUP_TYPES, seconds=30)


def health_status(settings: Settings) -> dict[str, Any]:
    settings.HEALTH_TOKEN = TOKEN
    for queue in QUEUES:
        heartbeats.record_heartbeat(queue, "worker@here")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    response: dict[str, Any] = Client().get("/health/status", headers=headers).json()
    return response


def is_reported(settings: Settings) -> bool:
    health = health_status(settings)
    reason_given = any(words.startswith(service_team.ANOTHER_TEAM) for words in health["reasons"])
    assert health["status"] == "failing" or not reason_given
    return reason_given


def test_key_of_another_team_stores_and_flags_nothing(
    harness: OutboxHarness, use_key: UseKey, back_office: BackOffice, settings: Settings
) -> None:
    before = back_office.rows()
    assert not is_reported(settings)
    use_key(OTHER_KEY)
    with service_client.service() as client:
        assert client.users.list(0, 1).records, "the other team has patients of its own"
    use_key(OTHER_KEY)
    read_all()
    assert back_office.rows() == before
    assert not Patient.objects.exclude(missing_since=None).exists()
    runs = SyncRun.objects.exclude(state=SyncRun.State.DONE)
    assert {run.resource for run in runs} == {synced_list.resource for synced_list in SYNCED_LISTS}
    for run in runs:
        assert run.error.startswith(service_team.ANOTHER_TEAM), run
    assert is_reported(settings)


def test_sync_continues_by_itself_with_our_key_again(
    harness: OutboxHarness, use_key: UseKey, settings: Settings
) -> None:
    use_key(OTHER_KEY)
    read_all()
    assert is_reported(settings)
    use_key(OUR_KEY)
    for synced_list in SYNCED_LISTS:
        SyncRun.objects.filter(state=SyncRun.State.DUE).update(due_at=Now())
        work_on_run(synced_list)
    assert not is_reported(settings)
    assert not SyncRun.objects.exclude(state=SyncRun.State.DONE).exists()


def test_command_is_not_sent_with_key_of_another_team(
    harness: OutboxHarness, use_key: UseKey
) -> None:
    order = order_awaiting_draw(harness)
    harness.submit_form(harness.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    row = harness.newest_command()
    last = harness.sandbox.control("writes")["last"]
    use_key(OTHER_KEY)
    harness.deliver()
    row.refresh_from_db()
    assert (row.state, row.hindrance) == ("waiting", service_team.ANOTHER_TEAM)
    CommandRecord.objects.filter(pk=row.pk).update(state="uncertain", doubted=True)
    harness.pass_time()
    row.refresh_from_db()
    assert row.state == "uncertain", "a lookup with another team's key proves nothing"
    assert harness.sandbox.control("writes")["last"] == last
    CommandRecord.objects.filter(pk=row.pk).update(state="waiting", doubted=False)
    use_key(OUR_KEY)
    harness.pass_time()
    row.refresh_from_db()
    assert row.state == "done"


def test_outage_after_restart_leads_to_a_decision(harness: OutboxHarness, use_key: UseKey) -> None:
    """A worker that has just started cannot check its key during an outage.

    After some attempts a person decides, as with a worker that has run for long.
    """
    order = order_awaiting_draw(harness)
    harness.submit_form(harness.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    row = harness.newest_command()
    CommandRecord.objects.filter(pk=row.pk).update(state="uncertain", doubted=True)
    for path in ("^/v2/user/?$", "^/v3/orders/?$", "^/v3/order/"):
        harness.sandbox.prepare_answer(path, body={}, status=503, times=None)
    use_key(OUR_KEY)
    states = []
    for _ in range(7):
        harness.pass_time()
        row.refresh_from_db()
        states.append(row.state)
    assert states == ["uncertain"] * 5 + ["undecided"] * 2


@pytest.mark.parametrize("arguments", [(), ("--full",), ("users",), ("look-ups",)])
def test_sync_command_stops_with_a_clear_error(
    harness: OutboxHarness, back_office: BackOffice, settings: Settings, arguments: tuple[str, ...]
) -> None:
    before = back_office.rows()
    process = back_office.start(*SYNC, *arguments, SERVICE_API_KEY=OTHER_KEY)
    try:
        assert process.wait(120) == 1
    finally:
        end(process)
    assert service_team.ANOTHER_TEAM in back_office.said()
    assert "Traceback" not in back_office.said()
    assert back_office.rows() == before
    assert is_reported(settings)


def test_key_of_empty_team_removes_nothing(
    harness: OutboxHarness, use_key: UseKey, back_office: BackOffice, settings: Settings
) -> None:
    """A new team lists nothing, so all our records would be marked as missing."""
    before = back_office.rows()
    empty = {"users": [], "orders": [], "total": 0, "page": 1, "size": 1, "offset": 0, "limit": 1}
    for path in ("^/v2/user/?$", "^/v3/orders/?$"):
        harness.sandbox.prepare_answer(path, body=empty, times=None)
    use_key(OTHER_KEY)
    read_all()
    assert back_office.rows() == before
    assert is_reported(settings)


def test_page_with_patient_of_another_team_is_refused(
    harness: OutboxHarness, use_key: UseKey, back_office: BackOffice
) -> None:
    """The key was checked, and then given to another team."""
    use_key(OUR_KEY)
    before = back_office.rows()
    service_team.verified_service()
    foreign = {"team_id": "7ea00000-0000-4000-8000-000000000002"}
    harness.sandbox.prepare_answer("^/v2/user/?$", merge={"users": {"3": foreign}})
    request_run(USERS)
    run = work_on_run(USERS)
    assert run is not None and run.error.startswith(service_team.ANOTHER_TEAM)
    assert back_office.rows() == before


def test_launcher_stops_with_one_line_for_another_team(
    harness: OutboxHarness, back_office: BackOffice
) -> None:
    """`./run up` checks the team after its migrations, before it starts workers."""
    launcher.check_team(back_office.environment())
    with pytest.raises(launcher.LauncherError) as error:
        launcher.check_team(back_office.environment(SERVICE_API_KEY=OTHER_KEY))
    message = str(error.value)
    assert message.startswith(service_team.ANOTHER_TEAM) and len(message.splitlines()) == 1
    assert error.value.code == 1


def test_launcher_continues_while_service_is_down(
    harness: OutboxHarness, back_office: BackOffice, capsys: pytest.CaptureFixture[str]
) -> None:
    back_office.service_url = f"http://127.0.0.1:{free_port()}"
    launcher.check_team(back_office.environment(SERVICE_API_KEY=OTHER_KEY))
    assert "could not be checked" in capsys.readouterr().out


def test_run_up_ends_before_workers_start(harness: OutboxHarness, back_office: BackOffice) -> None:
    servers = {"DATABASE_URL": back_office.database_url, "REDIS_URL": os.environ["REDIS_URL"]}
    settings = {**servers, "SERVICE_API_KEY": OTHER_KEY}
    # A folder that every user may enter: the launcher does not use others.
    with tempfile.TemporaryDirectory(prefix="bo-") as folder:
        installation = Installation(Path(folder), harness.sandbox.url, free_port(), settings)
        installation.start()
        try:
            assert installation.process is not None
            assert installation.process.wait(120) == 1, installation.said()
        finally:
            installation.end()
        output = installation.said()
    assert output.count(service_team.ANOTHER_TEAM) == 1
    assert "Traceback" not in output and "Starting workers" not in output
