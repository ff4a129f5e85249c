"""The installation remembers its team, and moves to another only with `manage.py adoptteam`."""

from __future__ import annotations

import json
from io import StringIO
from uuid import UUID

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from backoffice.audit.models import AuditEntry
from backoffice.core import service_team
from backoffice.core.models import Installation
from backoffice.devtools.embedded import free_port
from backoffice.management.commands.sync import LOOKUP_TYPES, SYNCED_LISTS
from backoffice.mirror.models import Drift
from backoffice.sync.lookups import run_due_lookups, schedule_lookups
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import request_run, work_on_run
from orders.models import Order
from orders.sync import ALL_ORDERS
from patients.models import Patient
from patients.sync import USERS
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.harness import OutboxHarness
from tests.outbox.keys import OTHER_KEY, OUR_KEY, UseKey
from tests.outbox.test_another_team import is_reported
from tests.sync.back_office import BackOffice
from tests.webhooks.rows import event
from webhooks import apply_events
from webhooks.models import Event

OUR_TEAM = UUID("7ea00000-0000-4000-8000-000000000001")
OTHER_TEAM = UUID("7ea00000-0000-4000-8000-000000000002")
EMPTY_PAGE = {"users": [], "orders": [], "total": 0, "page": 1, "size": 1, "offset": 0, "limit": 1}


def adopt_team(team: UUID | str | None = OTHER_TEAM) -> str:
    """Run `adoptteam` and return its output."""
    out = StringIO()
    call_command("adoptteam", team=None if team is None else str(team), stdout=out)
    return out.getvalue()


def remembered_team() -> UUID | None:
    return Installation.objects.values_list("team_id", flat=True).get()


def read_lists(harness: OutboxHarness) -> None:
    """Sync all lists and run all scheduled lookups."""
    for synced_list in SYNCED_LISTS:
        request_run(synced_list)
        work_on_run(synced_list)
    harness.run_lookups()


def count_current(team: UUID) -> tuple[int, int]:
    """Count the patients and orders of a team that are not marked as missing."""
    filters = {"team_id": team, "missing_since": None}
    return Patient.objects.filter(**filters).count(), Order.objects.filter(**filters).count()


# Remembering


def test_first_sync_remembers_the_team(harness: OutboxHarness) -> None:
    assert remembered_team() == OUR_TEAM == service_team.mirror_team()


def test_remembered_team_refuses_other_keys_without_records(
    harness: OutboxHarness, use_key: UseKey, back_office: BackOffice
) -> None:
    """The team of a key is known without any patient."""
    Installation.objects.update(team_id=OTHER_TEAM)
    before = back_office.rows()
    use_key(OUR_KEY)
    request_run(USERS)
    run = work_on_run(USERS)
    assert run is not None and run.error.startswith(service_team.ANOTHER_TEAM)
    assert back_office.rows() == before


def test_old_database_remembers_the_team_at_its_next_sync(
    harness: OutboxHarness, use_key: UseKey
) -> None:
    Installation.objects.update(team_id=None)
    assert service_team.mirror_team() == OUR_TEAM
    use_key(OUR_KEY)
    request_run(USERS)
    work_on_run(USERS)
    assert remembered_team() == OUR_TEAM


def test_first_records_of_two_teams_are_refused(harness: OutboxHarness) -> None:
    """Nothing tells which of the two teams is ours."""
    Installation.objects.update(team_id=None)
    with pytest.raises(service_team.AnotherTeam), transaction.atomic():
        service_team.remember_team({OUR_TEAM, OTHER_TEAM})
    assert remembered_team() is None


def test_single_record_of_another_team_is_not_stored(
    harness: OutboxHarness, use_key: UseKey, back_office: BackOffice
) -> None:
    use_key(OUR_KEY)
    service_team.verified_service()
    patient, order = Patient.objects.all()[0], Order.objects.all()[0]
    foreign = {"team_id": str(OTHER_TEAM), "client_user_id": "of-another-team"}
    harness.sandbox.prepare_answer(f"/v2/user/{patient.pk}$", merge=foreign)
    harness.sandbox.prepare_answer(f"/v3/order/{order.pk}$", merge={"team_id": str(OTHER_TEAM)})
    Lookup.objects.update(due_at=None)
    schedule_lookups("users", [patient.pk])
    schedule_lookups("orders", [order.pk])
    before = back_office.rows()
    run_due_lookups(LOOKUP_TYPES, seconds=30)
    assert back_office.rows() == before
    errors = Lookup.objects.filter(key__in=[str(patient.pk), str(order.pk)]).exclude(error="")
    assert errors.count() == 2
    assert all(row.error.startswith(service_team.ANOTHER_TEAM) for row in errors)


# Adopting


def test_adopted_team_is_read_and_nothing_is_deleted(
    harness: OutboxHarness, use_key: UseKey, settings: Settings
) -> None:
    patients, orders = count_current(OUR_TEAM)
    rows = Patient.objects.count(), Order.objects.count()
    use_key(OTHER_KEY)
    printed = adopt_team()
    assert f"belong to team {OUR_TEAM}: {patients:,} patients, {orders:,} orders." in printed
    assert "Nothing is deleted." in printed
    assert remembered_team() == OTHER_TEAM == service_team.mirror_team()
    assert (Patient.objects.count(), Order.objects.count()) == rows
    assert count_current(OUR_TEAM) == (0, 0)
    entry = AuditEntry.objects.get(object_type="adopt team")
    assert (entry.actor_kind, entry.object_ids) == ("machine", [str(OUR_TEAM), str(OTHER_TEAM)])

    use_key(OTHER_KEY)
    read_lists(harness)
    assert not is_reported(settings)
    assert count_current(OTHER_TEAM)[0] == 5 and count_current(OTHER_TEAM)[1] > 0
    assert count_current(OUR_TEAM) == (0, 0)
    assert not Lookup.objects.exclude(error="").exists(), "missing records are not looked up"
    records = ("users", "orders", Patient._meta.db_table, Order._meta.db_table)
    assert not Drift.objects.filter(resource__in=records).exists(), "expected, so no difference"


def test_key_of_the_former_team_is_refused_after_adopting(
    harness: OutboxHarness, use_key: UseKey, back_office: BackOffice
) -> None:
    """A running worker with that key is refused too, although it had verified the key before."""
    use_key(OUR_KEY)
    service_team.verified_service()
    service_team.remember_team([OUR_TEAM])
    Installation.objects.update(team_id=OTHER_TEAM)
    before = back_office.rows()
    request_run(USERS)
    run = work_on_run(USERS)
    assert run is not None and run.error.startswith(service_team.ANOTHER_TEAM)
    assert back_office.rows() == before


def test_adopting_the_former_team_restores_its_records(
    harness: OutboxHarness, use_key: UseKey, settings: Settings
) -> None:
    before = count_current(OUR_TEAM)
    use_key(OTHER_KEY)
    adopt_team()
    use_key(OUR_KEY)
    adopt_team(OUR_TEAM)
    use_key(OUR_KEY)
    read_lists(harness)
    assert count_current(OUR_TEAM) == before
    assert not is_reported(settings)


def test_events_follow_the_adopted_team(harness: OutboxHarness, use_key: UseKey) -> None:
    use_key(OTHER_KEY)
    adopt_team()
    event_type = "continuous_query.result_table.changed"
    for number, team in enumerate((OUR_TEAM, OTHER_TEAM)):
        body = {"event_type": event_type, "data": [], "team_id": str(team)}
        event(event_type, json.dumps(body).encode(), message_id=f"msg_{number}").save()
    apply_events.drain(seconds=10)
    states = Event.objects.order_by("message_id").values_list("state", flat=True)
    assert list(states) == ["quarantined", "done"]


def test_adopting_ends_open_runs_and_schedules_new_ones(
    harness: OutboxHarness, use_key: UseKey
) -> None:
    request_run(ALL_ORDERS)
    use_key(OTHER_KEY)
    adopt_team()
    ended_run = SyncRun.objects.filter(resource="orders", full=True, state="failed").get()
    assert ended_run.error == "This installation moved to another team of the service."
    due_resources = set(SyncRun.objects.filter(state="due").values_list("resource", flat=True))
    assert {"users", "orders", "labs", "lab-accounts", "markers"} <= due_resources


# Refusals: nothing is changed


def test_adopting_is_refused_while_a_request_waits(harness: OutboxHarness, use_key: UseKey) -> None:
    order = order_awaiting_draw(harness)
    harness.submit_form(harness.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    before = count_current(OUR_TEAM)
    use_key(OTHER_KEY)
    with pytest.raises(CommandError, match=r"requests waiting to be sent .*: 1"):
        adopt_team()
    assert (remembered_team(), count_current(OUR_TEAM)) == (OUR_TEAM, before)


@pytest.mark.parametrize(
    ("key", "team", "words"),
    [
        (OTHER_KEY, OUR_TEAM, "already belong to team .*1,"),
        (OTHER_KEY, UUID(int=7), "SERVICE_API_KEY belongs to team .*2, not "),
        (OTHER_KEY, "the other one", "that is not the id of a team"),
        (OTHER_KEY, None, "name the team to adopt with --team"),
        (
            "sk_us_of_nobody",
            OTHER_TEAM,
            "not show which team SERVICE_API_KEY .*Denied 401",
        ),
    ],
)
def test_adopting_a_team_other_than_the_keys_is_refused(
    harness: OutboxHarness, use_key: UseKey, key: str, team: UUID | str | None, words: str
) -> None:
    before = count_current(OUR_TEAM)
    use_key(key)
    with pytest.raises(CommandError, match=words):
        adopt_team(team)
    assert (remembered_team(), count_current(OUR_TEAM)) == (OUR_TEAM, before)
    assert not AuditEntry.objects.filter(object_type="adopt team").exists()


def test_adopting_is_refused_while_service_is_down(
    harness: OutboxHarness, use_key: UseKey, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = f"http://127.0.0.1:{free_port()}"
    use_key(OTHER_KEY)
    with pytest.raises(CommandError, match="does not show which team"):
        adopt_team()
    assert remembered_team() == OUR_TEAM


def test_adopting_the_current_team_changes_nothing(harness: OutboxHarness, use_key: UseKey) -> None:
    before = count_current(OUR_TEAM)
    use_key(OUR_KEY)
    assert f"belongs to team {OUR_TEAM}, as do the records here" in adopt_team(OUR_TEAM)
    assert (remembered_team(), count_current(OUR_TEAM)) == (OUR_TEAM, before)


@pytest.mark.django_db
def test_adopting_before_the_first_sync_is_refused() -> None:
    with pytest.raises(CommandError, match="The first sync remembers"):
        adopt_team()


def test_team_without_records_is_adopted_by_id(
    harness: OutboxHarness, use_key: UseKey, settings: Settings
) -> None:
    """The service lists no record that names a new team."""
    for path in ("^/v2/user/?$", "^/v3/orders/?$"):
        harness.sandbox.prepare_answer(path, body=EMPTY_PAGE, times=None)
    use_key(OTHER_KEY)
    assert "cannot be compared with the one you enter" in adopt_team()
    assert remembered_team() == OTHER_TEAM
    use_key(OTHER_KEY)
    SyncRun.objects.filter(state="due").update(due_at=timezone.now())
    work_on_run(USERS)
    assert not is_reported(settings)
