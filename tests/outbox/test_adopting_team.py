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

from backoffice import sync
from backoffice.core import service_team
from backoffice.devtools.embedded import free_port
from backoffice.management.commands.sync import LOOKUP_TYPES, SYNCED_LISTS
from backoffice.models import AuditEntry, Drift, Installation, Lookup, SyncRun
from orders.models import Order
from orders.sync import SWEEP
from patients.models import Patient
from patients.sync import USERS
from tests.outbox.desk import Desk
from tests.outbox.draws import waiting
from tests.outbox.keys import OTHER_KEY, OUR_KEY, UseKey
from tests.outbox.test_another_team import is_said
from tests.sync.house import House
from tests.webhooks.rows import event
from webhooks import apply_events
from webhooks.models import Event

OURS = UUID("7ea00000-0000-4000-8000-000000000001")
OTHER = UUID("7ea00000-0000-4000-8000-000000000002")
EMPTY = {"users": [], "orders": [], "total": 0, "page": 1, "size": 1, "offset": 0, "limit": 1}


def adopt(team: UUID | str | None = OTHER) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("adoptteam", team=None if team is None else str(team), stdout=out)
    return out.getvalue()


def remembered() -> UUID | None:
    return Installation.objects.values_list("team_id", flat=True).get()


def read_lists(desk: Desk) -> None:
    """All lists, and every look-up that there is a reason for."""
    for synced_list in SYNCED_LISTS:
        sync.request_run(synced_list)
        sync.work_on_run(synced_list)
    desk.look_up()


def here(team: UUID) -> tuple[int, int]:
    """Patients and orders of a team that are not marked as gone."""
    there = {"team_id": team, "missing_since": None}
    return Patient.objects.filter(**there).count(), Order.objects.filter(**there).count()


# Remembering


def test_first_sync_remembers_the_team(desk: Desk) -> None:
    assert remembered() == OURS == service_team.mirror_team()


def test_remembered_team_refuses_others_before_any_record(
    desk: Desk, use_key: UseKey, house: House
) -> None:
    """No patient is needed to know whose key it is."""
    Installation.objects.update(team_id=OTHER)
    before = house.rows()
    use_key(OUR_KEY)
    sync.request_run(USERS)
    run = sync.work_on_run(USERS)
    assert run is not None and run.error.startswith(service_team.ANOTHER_TEAM)
    assert house.rows() == before


def test_database_of_an_earlier_release_remembers_at_its_sync(desk: Desk, use_key: UseKey) -> None:
    Installation.objects.update(team_id=None)
    assert service_team.mirror_team() == OURS
    use_key(OUR_KEY)
    sync.request_run(USERS)
    sync.work_on_run(USERS)
    assert remembered() == OURS


def test_first_records_of_two_teams_are_refused(desk: Desk) -> None:
    """Nobody can say which of them is ours."""
    Installation.objects.update(team_id=None)
    with pytest.raises(service_team.AnotherTeam), transaction.atomic():
        service_team.remember_team({OURS, OTHER})
    assert remembered() is None


def test_single_record_of_another_team_is_not_stored(
    desk: Desk, use_key: UseKey, house: House
) -> None:
    use_key(OUR_KEY)
    service_team.verified_service()
    patient, order = Patient.objects.all()[0], Order.objects.all()[0]
    foreign = {"team_id": str(OTHER), "client_user_id": "of-another-team"}
    desk.sandbox.prepare_answer(f"/v2/user/{patient.pk}$", merge=foreign)
    desk.sandbox.prepare_answer(f"/v3/order/{order.pk}$", merge={"team_id": str(OTHER)})
    Lookup.objects.update(due_at=None)
    sync.schedule_lookups("users", [patient.pk])
    sync.schedule_lookups("orders", [order.pk])
    before = house.rows()
    sync.run_due_lookups(LOOKUP_TYPES, seconds=30)
    assert house.rows() == before
    errors = Lookup.objects.filter(key__in=[str(patient.pk), str(order.pk)]).exclude(error="")
    assert errors.count() == 2
    assert all(row.error.startswith(service_team.ANOTHER_TEAM) for row in errors)


# Adopting


def test_adopted_team_is_read_and_nothing_is_deleted(
    desk: Desk, use_key: UseKey, settings: Settings
) -> None:
    patients, orders = here(OURS)
    rows = Patient.objects.count(), Order.objects.count()
    use_key(OTHER_KEY)
    printed = adopt()
    assert f"of team {OURS}: {patients:,} patients, {orders:,} orders." in printed
    assert "Nothing is deleted." in printed
    assert remembered() == OTHER == service_team.mirror_team()
    assert (Patient.objects.count(), Order.objects.count()) == rows
    assert here(OURS) == (0, 0)
    entry = AuditEntry.objects.get(object_type="adopt team")
    assert (entry.actor_kind, entry.object_ids) == ("machine", [str(OURS), str(OTHER)])

    use_key(OTHER_KEY)
    read_lists(desk)
    assert not is_said(settings)
    assert here(OTHER)[0] == 5 and here(OTHER)[1] > 0
    assert here(OURS) == (0, 0)
    assert not Lookup.objects.exclude(error="").exists(), "nothing is asked about what is gone"
    records = ("users", "orders", Patient._meta.db_table, Order._meta.db_table)
    assert not Drift.objects.filter(resource__in=records).exists(), "expected, so no difference"


def test_key_of_the_team_before_is_refused_afterwards(
    desk: Desk, use_key: UseKey, house: House
) -> None:
    """A worker that still runs with it, too: it had found its key to be ours."""
    use_key(OUR_KEY)
    service_team.verified_service()
    service_team.remember_team([OURS])
    Installation.objects.update(team_id=OTHER)
    before = house.rows()
    sync.request_run(USERS)
    run = sync.work_on_run(USERS)
    assert run is not None and run.error.startswith(service_team.ANOTHER_TEAM)
    assert house.rows() == before


def test_moving_back_finds_everything_again(
    desk: Desk, use_key: UseKey, settings: Settings
) -> None:
    before = here(OURS)
    use_key(OTHER_KEY)
    adopt()
    use_key(OUR_KEY)
    adopt(OURS)
    use_key(OUR_KEY)
    read_lists(desk)
    assert here(OURS) == before
    assert not is_said(settings)


def test_events_follow_the_adopted_team(desk: Desk, use_key: UseKey) -> None:
    use_key(OTHER_KEY)
    adopt()
    kept = "continuous_query.result_table.changed"
    for number, team in enumerate((OURS, OTHER)):
        body = {"event_type": kept, "data": [], "team_id": str(team)}
        event(kept, json.dumps(body).encode(), message_id=f"msg_{number}").save()
    apply_events.drain(seconds=10)
    states = Event.objects.order_by("message_id").values_list("state", flat=True)
    assert list(states) == ["quarantined", "done"]


def test_open_runs_end_and_lists_are_read_anew(desk: Desk, use_key: UseKey) -> None:
    sync.request_run(SWEEP)
    use_key(OTHER_KEY)
    adopt()
    ended = SyncRun.objects.filter(resource="orders", full=True, state="failed").get()
    assert ended.error == "This installation moved to another team of the service."
    asked = set(SyncRun.objects.filter(state="due").values_list("resource", flat=True))
    assert {"users", "orders", "labs", "lab-accounts", "markers"} <= asked


# Refusals: nothing is changed


def test_adopting_is_refused_while_a_request_waits(desk: Desk, use_key: UseKey) -> None:
    order = waiting(desk)
    desk.fill(desk.client(), reverse("orders:cancel", args=[order.pk]), why="patient")
    before = here(OURS)
    use_key(OTHER_KEY)
    with pytest.raises(CommandError, match=r"requests that wait to be sent .*: 1"):
        adopt()
    assert (remembered(), here(OURS)) == (OURS, before)


@pytest.mark.parametrize(
    ("key", "team", "words"),
    [
        (OTHER_KEY, OURS, "are of team .*1 already"),
        (OTHER_KEY, UUID(int=7), "SERVICE_API_KEY is of team .*2, not of"),
        (OTHER_KEY, "the other one", "that is no id of a team"),
        (OTHER_KEY, None, "name the team to adopt with --team"),
        ("sk_us_of_nobody", OTHER, "does not show whose SERVICE_API_KEY is .*Denied 401"),
    ],
)
def test_adopting_another_than_the_keys_team_is_refused(
    desk: Desk, use_key: UseKey, key: str, team: UUID | str | None, words: str
) -> None:
    before = here(OURS)
    use_key(key)
    with pytest.raises(CommandError, match=words):
        adopt(team)
    assert (remembered(), here(OURS)) == (OURS, before)
    assert not AuditEntry.objects.filter(object_type="adopt team").exists()


def test_adopting_is_refused_while_the_service_is_silent(
    desk: Desk, use_key: UseKey, settings: Settings
) -> None:
    settings.SERVICE_BASE_URL = f"http://127.0.0.1:{free_port()}"
    use_key(OTHER_KEY)
    with pytest.raises(CommandError, match="does not show whose"):
        adopt()
    assert remembered() == OURS


def test_adopting_our_own_team_changes_nothing(desk: Desk, use_key: UseKey) -> None:
    before = here(OURS)
    use_key(OUR_KEY)
    assert f"is of team {OURS}, as the records here are" in adopt(OURS)
    assert (remembered(), here(OURS)) == (OURS, before)


@pytest.mark.django_db
def test_adopting_before_the_first_sync_is_refused() -> None:
    with pytest.raises(CommandError, match="the first sync remembers"):
        adopt()


def test_team_without_records_is_adopted_by_its_id(
    desk: Desk, use_key: UseKey, settings: Settings
) -> None:
    """A new team: the service lists nothing that names it."""
    for path in ("^/v2/user/?$", "^/v3/orders/?$"):
        desk.sandbox.prepare_answer(path, body=EMPTY, times=None)
    use_key(OTHER_KEY)
    assert "cannot be compared with the one you name" in adopt()
    assert remembered() == OTHER
    use_key(OTHER_KEY)
    SyncRun.objects.filter(state="due").update(due_at=timezone.now())
    sync.work_on_run(USERS)
    assert not is_said(settings)
