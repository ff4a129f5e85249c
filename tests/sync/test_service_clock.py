"""Changed records still arrive when the service's clock jumps ahead, jumps back or drifts.

The sync runs in this process, on a real database, against a sandbox whose answers and records are
dated by a clock that can be set.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.core import service_client
from backoffice.sync.models import SyncRun
from backoffice.sync.runs import SyncedList, request_run, work_on_run
from orders.models import Order
from orders.sync import ALL_ORDERS, CHANGED_ORDERS
from tests.api.rows import order
from tests.sandboxes import Sandbox, SandboxFactory

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)
TOKEN = "made-up-token-of-a-monitor"


@pytest.fixture(scope="module")
def clock_sandbox(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=15, orders=80, seed=3)


@pytest.fixture
def mirror(clock_sandbox: Sandbox, settings: Settings) -> Iterator[Sandbox]:
    """Yield the sandbox with the correct time, after the first sync of the mirror."""
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = clock_sandbox.url
    settings.HEALTH_TOKEN = TOKEN
    service_client.service.cache_clear()
    complete_run(ALL_ORDERS)
    complete_run(CHANGED_ORDERS)
    yield clock_sandbox
    clock_sandbox.control("answers", method="DELETE")
    real_now = datetime.now(UTC)
    service_now = datetime.fromisoformat(clock_sandbox.control("status")["now"])
    advance(clock_sandbox, real_now - service_now)
    service_client.service.cache_clear()


def complete_run(synced_list: SyncedList) -> SyncRun:
    """Request a run and work on it until it is done."""
    request_run(synced_list)
    run = work_on_run(synced_list)
    assert run is not None and run.state == SyncRun.State.DONE, run and run.error
    return run


def advance(clock_sandbox: Sandbox, length: timedelta) -> None:
    clock_sandbox.control("clock", {"advance_seconds": length.total_seconds()})


def date_next_answer(clock_sandbox: Sandbox, moment: datetime) -> None:
    """Change the Date header of the next list of orders. The service's clock stays correct."""
    dated = {"Date": format_datetime(moment, usegmt=True)}
    clock_sandbox.prepare_answer(r"^/v3/orders\?", merge={}, headers=dated)


def change(clock_sandbox: Sandbox, orders: int = 3) -> list[str]:
    """Place one order and change others, some of them for the second time."""
    placed = clock_sandbox.control("place", {"orders": 1})["order_ids"]
    changed: list[str] = clock_sandbox.control("change", {"orders": orders})["order_ids"]
    return [*placed, *changed]


def missing_changes(clock_sandbox: Sandbox, ids: list[str]) -> list[str]:
    """Return the changed orders that the mirror does not show in their current state."""
    service_statuses = {
        str(key): status
        for key, status in clock_sandbox.query(
            "SELECT id, low_level_status FROM sandbox_order WHERE id = ANY(%s)", [ids]
        )
    }
    mirrored = dict(Order.objects.filter(pk__in=ids).values_list("pk", "low_level_status"))
    mirror_statuses = {str(key): status for key, status in mirrored.items()}
    assert service_statuses.keys() == set(ids)
    return [key for key in ids if mirror_statuses.get(key) != service_statuses[key]]


def reasons(client: Client) -> list[str]:
    answer = client.get("/health/status", headers={"Authorization": f"Bearer {TOKEN}"})
    about = ("service's clock", "Orders are changing", "Sync has read no changes")
    found: list[str] = answer.json()["reasons"]
    return [words for words in found if any(each in words for each in about)]


@pytest.mark.parametrize("days", [2, -2, 400, -400])
@pytest.mark.parametrize("answers", [1, 3])
def test_wrong_dates_lose_no_change(mirror: Sandbox, days: int, answers: int) -> None:
    """One answer dated two days ahead used to stop every later incremental sync silently."""
    for _ in range(answers):
        date_next_answer(mirror, datetime.now(UTC) + days * DAY)
        ids = change(mirror)
        complete_run(CHANGED_ORDERS)
        assert not missing_changes(mirror, ids)
    ids = change(mirror)
    run = complete_run(CHANGED_ORDERS)
    assert run.window_start is not None and run.window_start < datetime.now(UTC)
    assert not missing_changes(mirror, ids)


@pytest.mark.parametrize("hours", [50, -50])
def test_wrong_date_is_reported_in_health_status(
    mirror: Sandbox, client: Client, hours: int
) -> None:
    assert reasons(client) == []
    date_next_answer(mirror, datetime.now(UTC) + timedelta(hours=hours))
    complete_run(CHANGED_ORDERS)
    message = "The service's clock jumped by 2 d. Changes are read with wider time windows."
    assert reasons(client) == [message]
    complete_run(CHANGED_ORDERS)
    assert reasons(client) == [message], "the reason stays for an hour"
    SyncRun.objects.update(created_at=datetime.now(UTC) - timedelta(minutes=61))
    complete_run(CHANGED_ORDERS)
    assert reasons(client) == []


@pytest.mark.parametrize(
    "jump", [2 * DAY, -2 * DAY, timedelta(hours=3), -timedelta(hours=3), -timedelta(minutes=20)]
)
def test_clock_jump_loses_no_change(mirror: Sandbox, jump: timedelta) -> None:
    """Records are dated by the new clock, too. Changes before the jump is detected arrive at the
    latest with the second run after it."""
    advance(mirror, jump)
    before_noticed = change(mirror)
    complete_run(CHANGED_ORDERS)
    ids = change(mirror)
    complete_run(CHANGED_ORDERS)
    assert not missing_changes(mirror, before_noticed + ids)
    ids = change(mirror)
    complete_run(CHANGED_ORDERS)
    assert not missing_changes(mirror, ids)


def test_clock_jump_and_return_lose_no_change(mirror: Sandbox) -> None:
    ids: list[str] = []
    for jump in (2 * DAY, -2 * DAY, -DAY, DAY, timedelta()):
        advance(mirror, jump)
        ids += change(mirror, 1)
        complete_run(CHANGED_ORDERS)
    complete_run(CHANGED_ORDERS)
    assert not missing_changes(mirror, ids)


@pytest.mark.parametrize("seconds", [50, -50])
def test_drifting_clock_loses_no_change(mirror: Sandbox, seconds: int) -> None:
    for _ in range(12):
        advance(mirror, timedelta(seconds=seconds))
        ids = change(mirror, 1)
        complete_run(CHANGED_ORDERS)
        assert not missing_changes(mirror, ids)


def test_steady_clock_difference_is_reported_after_an_hour(mirror: Sandbox, client: Client) -> None:
    advance(mirror, timedelta(minutes=10, seconds=10))
    for _ in range(2):
        complete_run(CHANGED_ORDERS)
    assert "jumped by 10 min" in reasons(client)[0]
    SyncRun.objects.update(created_at=datetime.now(UTC) - timedelta(minutes=61))
    complete_run(CHANGED_ORDERS)
    assert reasons(client) == ["The service's clock is 10 min ahead of ours."]


def test_future_time_stored_by_older_release_loses_no_change(mirror: Sandbox) -> None:
    """Earlier releases trusted the header and stored it unchanged."""
    wrong = datetime.now(UTC) + 2 * DAY
    for run in SyncRun.objects.all():
        run.server_date, run.checkpoint = wrong, {}
        run.save()
    ids = change(mirror)
    complete_run(CHANGED_ORDERS)
    assert not missing_changes(mirror, ids)


def test_open_run_with_future_window_loses_no_change(mirror: Sandbox) -> None:
    SyncRun.objects.create(
        resource="orders",
        full=False,
        window_start=datetime.now(UTC) + 2 * DAY,
        checkpoint={"since": (datetime.now(UTC) + DAY).isoformat()},
    )
    ids = change(mirror)
    complete_run(CHANGED_ORDERS)
    assert not missing_changes(mirror, ids)


def create_past_runs(*brought: bool, minutes: float) -> None:
    """Create done runs every few minutes until now. `brought`: whether each fetched orders."""
    now = datetime.now(UTC)
    for position, is_filled in enumerate(brought, 1):
        at = now - timedelta(minutes=(len(brought) - position) * minutes)
        SyncRun.objects.create(
            resource="orders",
            full=False,
            state="done",
            created_at=at,
            started_at=at,
            server_date=at,
            fetched=3 if is_filled else 0,
        )


def test_runs_that_miss_a_change_are_reported(client: Client, settings: Settings) -> None:
    """An event reported a step, and no later run has brought it."""
    settings.HEALTH_TOKEN = TOKEN
    create_past_runs(True, *[False] * 9, minutes=5)
    assert reasons(client) == []
    at = datetime.now(UTC) - timedelta(minutes=25)
    order(1, updated_at=at, last_event_at=at).save()
    assert reasons(client) == ["Orders are changing, but sync has read no changes for 45 min."]


@pytest.mark.parametrize("minutes_ago", [2, 44, 60])
def test_recent_or_already_read_step_is_not_reported(
    client: Client, settings: Settings, minutes_ago: float
) -> None:
    settings.HEALTH_TOKEN = TOKEN
    create_past_runs(True, *[False] * 9, minutes=5)
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    order(1, updated_at=at, last_event_at=at).save()
    assert reasons(client) == []


@pytest.mark.parametrize(("empty", "unusual"), [(3, False), (5, False), (8, True)])
def test_unusually_long_pause_is_reported(
    client: Client, settings: Settings, empty: int, unusual: bool
) -> None:
    """Runs brought changes every hour or two for days, then none for hours."""
    settings.HEALTH_TOKEN = TOKEN
    pattern: list[Any] = [True, False, True] * 20
    create_past_runs(*pattern, *[False] * empty, minutes=60)
    words = f"Sync has read no changes of orders for {empty} h, which is unusually long."
    assert reasons(client) == ([words] if unusual else [])
