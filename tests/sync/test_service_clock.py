"""The service's clock jumps ahead, jumps back and drifts: changed records still arrive.

In this process, on a real database, against a sandbox that dates its answers and its records by a
clock that can be set.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice import sync
from backoffice.core import service_client
from backoffice.models import SyncRun
from orders.models import Order
from orders.sync import CHANGES, SWEEP
from tests.api.rows import order
from tests.sandboxes import Sandbox, SandboxFactory

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)
TOKEN = "made-up-token-of-a-monitor"


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=15, orders=80, seed=3)


@pytest.fixture
def mirror(world: Sandbox, settings: Settings) -> Iterator[Sandbox]:
    """The sandbox with the right time, and the mirror after its first sync."""
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = world.url
    settings.HEALTH_TOKEN = TOKEN
    service_client.service.cache_clear()
    read(SWEEP)
    read(CHANGES)
    yield world
    world.control("answers", method="DELETE")
    real = datetime.now(UTC)
    there = datetime.fromisoformat(world.control("status")["now"])
    advance(world, real - there)
    service_client.service.cache_clear()


def read(synced_list: sync.SyncedList) -> SyncRun:
    """A run to its end."""
    sync.request_run(synced_list)
    run = sync.work_on_run(synced_list)
    assert run is not None and run.state == SyncRun.State.DONE, run and run.error
    return run


def advance(world: Sandbox, length: timedelta) -> None:
    world.control("clock", {"advance_seconds": length.total_seconds()})


def date_next_answer(world: Sandbox, moment: datetime) -> None:
    """The next list of orders has another Date header; the service's clock itself is right."""
    dated = {"Date": format_datetime(moment, usegmt=True)}
    world.prepare_answer(r"^/v3/orders\?", merge={}, headers=dated)


def change(world: Sandbox, orders: int = 3) -> list[str]:
    """New orders, and changed ones, among them some that changed before."""
    placed = world.control("place", {"orders": 1})["order_ids"]
    changed: list[str] = world.control("change", {"orders": orders})["order_ids"]
    return [*placed, *changed]


def missed(world: Sandbox, ids: list[str]) -> list[str]:
    """Those of the changed orders that the mirror does not show as they are now."""
    truth = {
        str(key): step
        for key, step in world.query(
            "SELECT id, low_level_status FROM sandbox_order WHERE id = ANY(%s)", [ids]
        )
    }
    ours = dict(Order.objects.filter(pk__in=ids).values_list("pk", "low_level_status"))
    shown = {str(key): step for key, step in ours.items()}
    assert truth.keys() == set(ids)
    return [key for key in ids if shown.get(key) != truth[key]]


def reasons(client: Client) -> list[str]:
    answer = client.get("/health/status", headers={"Authorization": f"Bearer {TOKEN}"})
    about = ("service's clock", "Orders change", "Reading changes")
    found: list[str] = answer.json()["reasons"]
    return [words for words in found if any(each in words for each in about)]


@pytest.mark.parametrize("days", [2, -2, 400, -400])
@pytest.mark.parametrize("answers", [1, 3])
def test_wrong_dates_lose_no_change(mirror: Sandbox, days: int, answers: int) -> None:
    """One answer dated two days ahead had stopped every later incremental sync in silence."""
    for _ in range(answers):
        date_next_answer(mirror, datetime.now(UTC) + days * DAY)
        ids = change(mirror)
        read(CHANGES)
        assert not missed(mirror, ids)
    ids = change(mirror)
    run = read(CHANGES)
    assert run.window_start is not None and run.window_start < datetime.now(UTC)
    assert not missed(mirror, ids)


@pytest.mark.parametrize("hours", [50, -50])
def test_wrong_date_is_a_reason_in_the_status(mirror: Sandbox, client: Client, hours: int) -> None:
    assert reasons(client) == []
    date_next_answer(mirror, datetime.now(UTC) + timedelta(hours=hours))
    read(CHANGES)
    jumped = "The service's clock jumped by 2 d. Changes are read with wider windows."
    assert reasons(client) == [jumped]
    read(CHANGES)
    assert reasons(client) == [jumped], "shown for an hour"
    SyncRun.objects.update(created_at=datetime.now(UTC) - timedelta(minutes=61))
    read(CHANGES)
    assert reasons(client) == []


@pytest.mark.parametrize(
    "jump", [2 * DAY, -2 * DAY, timedelta(hours=3), -timedelta(hours=3), -timedelta(minutes=20)]
)
def test_jump_of_the_clock_loses_no_change(mirror: Sandbox, jump: timedelta) -> None:
    """Records are dated by the new clock, too: what changed before the jump was noticed comes at
    the latest with the second run after it."""
    advance(mirror, jump)
    before_noticed = change(mirror)
    read(CHANGES)
    ids = change(mirror)
    read(CHANGES)
    assert not missed(mirror, before_noticed + ids)
    ids = change(mirror)
    read(CHANGES)
    assert not missed(mirror, ids)


def test_jump_there_and_back_loses_no_change(mirror: Sandbox) -> None:
    ids: list[str] = []
    for jump in (2 * DAY, -2 * DAY, -DAY, DAY, timedelta()):
        advance(mirror, jump)
        ids += change(mirror, 1)
        read(CHANGES)
    read(CHANGES)
    assert not missed(mirror, ids)


@pytest.mark.parametrize("seconds", [50, -50])
def test_drifting_clock_loses_no_change(mirror: Sandbox, seconds: int) -> None:
    for _ in range(12):
        advance(mirror, timedelta(seconds=seconds))
        ids = change(mirror, 1)
        read(CHANGES)
        assert not missed(mirror, ids)


def test_steady_difference_is_a_reason_once_it_is_no_jump(mirror: Sandbox, client: Client) -> None:
    advance(mirror, timedelta(minutes=10, seconds=10))
    for _ in range(2):
        read(CHANGES)
    assert "jumped by 10 min" in reasons(client)[0]
    SyncRun.objects.update(created_at=datetime.now(UTC) - timedelta(minutes=61))
    read(CHANGES)
    assert reasons(client) == ["The service's clock is 10 min ahead of ours."]


def test_future_time_of_an_older_release_heals(mirror: Sandbox) -> None:
    """Releases before this one believed the header and stored it as it was."""
    wrong = datetime.now(UTC) + 2 * DAY
    for run in SyncRun.objects.all():
        run.server_date, run.checkpoint = wrong, {}
        run.save()
    ids = change(mirror)
    read(CHANGES)
    assert not missed(mirror, ids)


def test_open_run_that_begins_in_the_future_heals(mirror: Sandbox) -> None:
    SyncRun.objects.create(
        resource="orders",
        full=False,
        window_start=datetime.now(UTC) + 2 * DAY,
        checkpoint={"since": (datetime.now(UTC) + DAY).isoformat()},
    )
    ids = change(mirror)
    read(CHANGES)
    assert not missed(mirror, ids)


def past_readings(*brought: bool, minutes: float) -> None:
    """Readings of changes every few minutes until now."""
    now = datetime.now(UTC)
    for place, some in enumerate(brought, 1):
        at = now - timedelta(minutes=(len(brought) - place) * minutes)
        SyncRun.objects.create(
            resource="orders",
            full=False,
            state="done",
            created_at=at,
            started_at=at,
            server_date=at,
            fetched=3 if some else 0,
        )


def test_readings_that_miss_a_change_are_a_reason(client: Client, settings: Settings) -> None:
    """An event told of a step, and no reading since has brought it."""
    settings.HEALTH_TOKEN = TOKEN
    past_readings(True, *[False] * 9, minutes=5)
    assert reasons(client) == []
    at = datetime.now(UTC) - timedelta(minutes=25)
    order(1, updated_at=at, last_event_at=at).save()
    assert reasons(client) == ["Orders change, but reading changes has brought nothing for 45 min."]


@pytest.mark.parametrize("minutes_ago", [2, 44, 60])
def test_step_that_was_or_will_be_read_is_no_reason(
    client: Client, settings: Settings, minutes_ago: float
) -> None:
    settings.HEALTH_TOKEN = TOKEN
    past_readings(True, *[False] * 9, minutes=5)
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    order(1, updated_at=at, last_event_at=at).save()
    assert reasons(client) == []


@pytest.mark.parametrize(("empty", "unusual"), [(3, False), (5, False), (8, True)])
def test_unusually_long_pause_is_a_reason(
    client: Client, settings: Settings, empty: int, unusual: bool
) -> None:
    """Readings brought something every hour or two for days; then nothing came for hours."""
    settings.HEALTH_TOKEN = TOKEN
    habit: list[Any] = [True, False, True] * 20
    past_readings(*habit, *[False] * empty, minutes=60)
    words = f"Reading changes of orders has brought nothing for {empty} h, unusually long."
    assert reasons(client) == ([words] if unusual else [])
