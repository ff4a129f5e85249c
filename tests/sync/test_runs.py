"""Runs against a service that limits, lies about the time or changes its types (S6-S8, S17, S20).

In this process, on a real database, against a small real HTTP server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import UUID

import pytest
import time_machine
from pytest_django import Settings

from backoffice import mirror, sync
from backoffice.models import Drift, Lookup, SyncRun, UnreadRecord
from backoffice.service import Record
from labs.models import LabAccount
from labs.sync import SYNCED_LISTS
from orders.models import Order
from orders.sync import CHANGES, SWEEP
from patients.models import Patient, Provider
from patients.sync import PROVIDER_LIST, USERS
from patients.wearables.sync import PULL_LIST
from tests.sync.conftest import Point
from tests.sync.standin import Asked, Reply

pytestmark = pytest.mark.django_db(transaction=True)


ACCOUNTS = next(one for one in SYNCED_LISTS if one.resource == "lab-accounts")


def once(synced_list: sync.SyncedList) -> SyncRun:
    """A run as the next tick would carry it on."""
    sync.request_run(synced_list)
    SyncRun.objects.filter(state=SyncRun.State.DUE).update(due_at=datetime.now(UTC))
    run = sync.work_on_run(synced_list)
    assert run is not None
    return run


def waits(run: SyncRun) -> float:
    """Seconds until the run is due again."""
    return (run.due_at - datetime.now(UTC)).total_seconds()


PROVIDERS = [{"slug": "band-one", "name": "Band One"}, {"slug": "ring-one", "name": "Ring One"}]


def in_200_seconds() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=200), usegmt=True)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [(lambda: "120", 115, 120), (lambda: "99999999", 295, 300), (in_200_seconds, 190, 200)],
)
def test_limited(point: Point, header: Callable[[], str], least: float, most: float) -> None:
    """S8: the row waits as long as the service asks, at most 300 s; the worker does not."""
    point(lambda asked: Reply({"detail": "slow down"}, 429, {"retry-after": header()}))
    started = time.monotonic()
    run = once(PROVIDER_LIST)
    assert time.monotonic() - started < 5
    assert (run.state, run.attempts) == ("due", 1)
    assert "Limited" in run.error and least <= waits(run) <= most
    assert sync.work_on_run(PROVIDER_LIST) is None  # not before it is due


def test_limited_by_nonsense(point: Point) -> None:
    """A negative wait is none: a few tries at once, then the next tick."""
    asked: list[Asked] = []

    def answer(request: Asked) -> Reply:
        asked.append(request)
        return Reply({}, 429, {"retry-after": "-1"})

    point(answer)
    run = once(PROVIDER_LIST)
    assert run.state == "due" and waits(run) <= 5 and len(asked) == 3


def test_service_down_and_back(point: Point) -> None:
    """S7: each failure waits longer, nothing is lost, and the first answer ends it."""
    down = True
    point(lambda asked: Reply({}, 503) if down else Reply(PROVIDERS))
    waited = []
    for attempt in range(1, 5):
        run = once(PROVIDER_LIST)
        assert (run.state, run.attempts) == ("due", attempt)
        waited.append(waits(run))
    assert waited == sorted(waited) and waited[-1] > 10
    assert SyncRun.objects.count() == 1 and not Provider.objects.exists()
    down = False
    run = once(PROVIDER_LIST)
    assert (run.state, run.created, run.error) == ("done", 2, "")


@pytest.mark.parametrize("status", [401, 403])
def test_refused_key(point: Point, status: int) -> None:
    """S13: the key is not tried again at once, and the run says why."""
    asked: list[Asked] = []

    def answer(request: Asked) -> Reply:
        asked.append(request)
        return Reply({"detail": "Missing or invalid API key"}, status)

    point(answer)
    run = once(PROVIDER_LIST)
    assert run.state == "due" and "Denied" in run.error and len(asked) == 1


def test_rejected_cursor(point: Point) -> None:
    """S6: a cursor that is no longer taken starts the list anew, from its first page."""
    rejected: list[str] = []

    def answer(asked: Asked) -> Reply:
        cursor = asked.query.get("next_cursor")
        if cursor and not rejected:
            rejected.append(cursor)
            return Reply({"detail": "Invalid next_cursor"}, 400)
        report = {"user_id": str(UUID(int=2 if cursor else 1)), "provider": {}}
        return Reply({"data": [report], "next_cursor": None if cursor else "second"})

    point(answer)
    run = once(PULL_LIST)
    assert run.state == "due" and "Refused 400" in run.error
    run = once(PULL_LIST)
    assert (run.state, run.fetched) == ("done", 2) and rejected == ["second"]


def test_repeating_cursor_fails_the_run(point: Point) -> None:
    """S5: such a run is failed, visibly, and nothing takes it for a whole list."""
    point(lambda asked: Reply({"data": [], "next_cursor": "again"}))
    run = once(PULL_LIST)
    assert run.state == "failed" and "repeated a cursor" in run.error
    assert run.server_date is None


def order(number: int, moment: datetime) -> dict[str, Any]:
    key, at = str(UUID(int=number)), moment.isoformat()
    event = {"id": number, "created_at": at, "status": "received.testkit.ordered"}
    return {
        "id": key,
        "user_id": key,
        "team_id": str(UUID(int=99)),
        "created_at": at,
        "updated_at": at,
        "events": [event],
        "last_event": event,
        "lab_test": {"name": "Panel", "method": "testkit"},
    }


@pytest.mark.parametrize("minutes", [-3, 3])
def test_clock_of_the_service(point: Point, settings: Settings, minutes: int) -> None:
    """S17: windows are told by the service's clock, with the overlap, whatever ours says."""
    theirs = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=minutes)
    windows: list[str | None] = []

    def answer(asked: Asked) -> Reply:
        windows.append(asked.query.get("updated_start_date"))
        date = format_datetime(theirs, usegmt=True)
        return Reply({"orders": [order(1, theirs)], "total": 1}, headers={"date": date})

    point(answer)
    once(CHANGES)
    run = once(CHANGES)
    assert run.server_date == theirs
    expected = theirs - timedelta(seconds=settings.SYNC_OVERLAP_SECONDS)
    assert windows[-1] is not None and datetime.fromisoformat(windows[-1]) == expected


def test_window_moves_only_when_a_run_ends(point: Point) -> None:
    """S7: a run that fails half-way leaves the next window where it was."""
    broken = False
    moment = datetime(2026, 5, 1, tzinfo=UTC)

    def answer(asked: Asked) -> Reply:
        page = asked.number("page", 1)
        if broken and page == 2:
            return Reply({}, 500)
        rows = [order(n, moment) for n in range(page * 100, page * 100 + (100 if page == 1 else 5))]
        return Reply({"orders": rows, "total": 105, "page": page, "size": 100})

    point(answer)
    assert once(CHANGES).state == "done"
    window = sync.clocks.latest_window("orders")
    broken = True
    run = once(CHANGES)
    assert run.state == "due" and run.attempts == 1
    assert sync.clocks.latest_window("orders") == window


def test_what_came_before_a_failure_is_stored(point: Point) -> None:
    """The page in hand when the service fails is not lost with it: the run resumes behind it."""
    moment = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    rows = [order(n, moment + timedelta(minutes=n)) for n in range(1, 121)]
    broken = True
    starts: list[str | None] = []

    def answer(asked: Asked) -> Reply:
        start = asked.query.get("start_date")
        starts.append(start)
        if start and broken:
            return Reply({}, 500, {"retry-after": "0"})
        since = datetime.fromisoformat(start) if start else moment
        held = [row for row in rows if datetime.fromisoformat(row["created_at"]) >= since]
        number = asked.number("page", 1)
        page = held[(number - 1) * 100 : number * 100]
        return Reply({"orders": page, "total": len(held), "page": number, "size": 100})

    point(answer)
    run = once(CHANGES)
    assert (run.state, run.attempts, run.fetched, run.created) == ("due", 1, 100, 100)
    assert "Unreachable" in run.error and waits(run) > 1 and run.lease_until is None
    assert Order.objects.count() == 100
    assert run.checkpoint["since"] == rows[99]["created_at"]
    broken, before = False, len(starts)
    again = once(CHANGES)
    assert (again.pk, again.state, again.error) == (run.pk, "done", "")
    assert Order.objects.count() == 120 and again.created == 120
    # Before it goes on, the worker asks whose the key is: without a start.
    resumed = next(start for start in starts[before:] if start)
    assert datetime.fromisoformat(resumed) == moment + timedelta(minutes=100)


def test_failure_is_not_the_end_of_a_list(point: Point) -> None:
    """What the pages that did not come would have held is not taken for gone."""
    rows = [user(n) for n in range(1, 1_201)]
    broken = False

    def answer(asked: Asked) -> Reply:
        offset = asked.number("offset", 0)
        if broken and offset >= 1_000:
            return Reply({}, 500, {"retry-after": "0"})
        return Reply({"users": rows[offset : offset + 500], "total": len(rows)})

    point(answer)
    assert once(USERS).created == 1_200
    Lookup.objects.all().delete()
    broken = True
    rows[5] = user(6, client_user_id="renamed")
    run = once(USERS)
    assert (run.state, run.changed, run.unseen) == ("due", 1, 0)
    assert Patient.objects.get(pk=UUID(int=6)).client_user_id == "renamed"
    assert not Lookup.objects.filter(kind="users").exists()


def test_error_of_ours(point: Point) -> None:
    """The run stays open, says that it is ours to mend, waits longer each time, and is carried on
    once it is mended."""

    def store(records: Sequence[Record[Any]]) -> mirror.ApplyOutcome:
        raise ZeroDivisionError("with words nobody should read")

    point(lambda asked: Reply(PROVIDERS))
    broken = replace(PROVIDER_LIST, store=store)
    waited = []
    for attempt in range(1, 5):
        run = once(broken)
        assert (run.state, run.attempts) == ("due", attempt)
        assert run.error == "internal error: ZeroDivisionError" and run.lease_until is None
        waited.append(waits(run))
    assert waited == pytest.approx([2, 5, 15, 30], abs=1)
    assert SyncRun.objects.count() == 1
    run = once(PROVIDER_LIST)
    assert (run.state, run.created, run.error, run.attempts) == ("done", 2, "", 0)


@pytest.mark.parametrize(
    ("state", "minutes", "asked_again"),
    [("failed", 14, False), ("failed", 16, True), ("done", 16, False), ("done", 60 * 25, True)],
)
def test_failed_run_is_asked_for_again_sooner(
    point: Point, state: str, minutes: int, asked_again: bool
) -> None:
    point(lambda asked: Reply(PROVIDERS))
    ago = datetime.now(UTC) - timedelta(minutes=minutes)
    SyncRun.objects.create(resource="providers", full=True, state=state, created_at=ago)
    sync.tick(PROVIDER_LIST, seconds=5)
    states = list(SyncRun.objects.order_by("created_at").values_list("state", flat=True))
    assert states == ([state, "done"] if asked_again else [state])


def user(number: int, **changes: object) -> dict[str, object]:
    return {
        "user_id": str(UUID(int=number)),
        "team_id": str(UUID(int=99)),
        "client_user_id": f"client-{number}",
        "created_on": "2026-03-01T08:00:00+00:00",
        "connected_sources": [],
        **changes,
    }


def test_field_that_changes_its_type(point: Point) -> None:
    """S20: the record is kept whole beside, the row stays as it was, drift names the path."""
    rows = [user(1), user(2), user(3)]
    point(lambda asked: Reply({"users": rows, "total": 3}))
    assert once(USERS).created == 3
    rows[1] = user(2, created_on={"at": "2026-03-01"})
    rows[2] = user(3, client_user_id="renamed")
    run = once(USERS)
    assert (run.state, run.changed, run.unreadable, run.unseen) == ("done", 1, 1, 0)
    kept = UnreadRecord.objects.get()
    assert (kept.resource, kept.key) == ("users", str(UUID(int=2)))
    assert kept.path == "$.created_on" and '"at"' in kept.record.replace(" ", "")
    drift = Drift.objects.get()
    assert (drift.kind, drift.key) == ("schema", str(UUID(int=2))) and "created_on" in drift.detail
    patients = dict(Patient.objects.values_list("pk", "client_user_id"))
    assert patients[UUID(int=2)] == "client-2" and patients[UUID(int=3)] == "renamed"
    assert not Patient.objects.exclude(missing_since=None).exists()


def test_user_gone_from_the_list(point: Point) -> None:
    """A row the list no longer has is a suspect; the service's own answer decides."""
    rows = [user(1), user(2), user(3)]
    singles = {1: Reply(user(1)), 2: Reply({"detail": "User not found"}, 404)}

    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/v2/user/0"):
            return singles[UUID(asked.path.rsplit("/", 1)[1]).int]
        return Reply({"users": rows, "total": len(rows)})

    point(answer)
    once(USERS)
    Lookup.objects.all().delete()
    rows[:] = [user(3)]
    assert once(USERS).unseen == 2
    assert not Patient.objects.exclude(missing_since=None).exists()
    sync.run_due_lookups(
        [lookup_type for lookup_type in _lookup_types() if lookup_type.kind == "users"]
    )
    gone = Patient.objects.exclude(missing_since=None).values_list("pk", flat=True)
    assert list(gone) == [UUID(int=2)]
    rows[:] = [user(2), user(3)]
    once(USERS)
    assert not Patient.objects.exclude(missing_since=None).exists()


def _lookup_types() -> tuple[sync.LookupType, ...]:
    from patients.sync import LOOKUP_TYPES

    return LOOKUP_TYPES


def test_drift_found_by_a_sweep(point: Point) -> None:
    """What a sweep brings although an earlier run should have is reported, and repaired."""
    old = datetime(2026, 5, 1, tzinfo=UTC)
    rows = [order(n, old + timedelta(minutes=n)) for n in range(1, 6)]

    def answer(asked: Asked) -> Reply:
        if "updated_start_date" in asked.query:
            return Reply({"orders": [], "total": 0})
        return Reply({"orders": rows, "total": len(rows)})

    point(answer)
    once(CHANGES)  # of today alone
    assert once(SWEEP).drifted == 0  # the first brings everything
    once(CHANGES)
    Order.objects.filter(pk=UUID(int=3)).delete()
    rows[1] = order(2, old + timedelta(minutes=2)) | {"passthrough": "late"}
    run = once(SWEEP)
    assert run.drifted == 2
    found = set(Drift.objects.values_list("key", "kind"))
    assert found == {(str(UUID(int=3)), "missing_local"), (str(UUID(int=2)), "stale")}
    assert Order.objects.get(pk=UUID(int=2)).passthrough == "late"
    assert Order.objects.filter(pk=UUID(int=3)).exists()


def test_one_open_run_of_a_kind(point: Point) -> None:
    """S16: however often a run is asked for, there is one."""
    point(lambda asked: Reply(PROVIDERS))
    assert sync.request_run(PROVIDER_LIST) is not None
    assert sync.request_run(PROVIDER_LIST) is None
    for _ in range(5):
        sync.tick(PROVIDER_LIST, seconds=5)
    assert SyncRun.objects.count() == 1


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(hours=-1), timedelta(days=-400)])
def test_a_clock_that_jumps_takes_over_no_run(point: Point, ahead: timedelta) -> None:
    """Leases and due times go by the clock of the database; that of one worker may be anything."""
    point(lambda asked: Reply(PROVIDERS))
    run = sync.request_run(PROVIDER_LIST)
    assert run is not None
    leased = datetime.now(UTC) + timedelta(seconds=60)
    SyncRun.objects.filter(pk=run.pk).update(state="running", fence=1, lease_until=leased)
    with time_machine.travel(datetime.now(UTC) + ahead, tick=True):
        assert sync.work_on_run(PROVIDER_LIST) is None
        SyncRun.objects.filter(pk=run.pk).update(lease_until=leased - timedelta(seconds=70))
        taken = sync.work_on_run(PROVIDER_LIST)
    assert taken is not None and (taken.state, taken.fence) == ("done", 2)


def test_a_refused_management_key_flags_no_account(point: Point, settings: Settings) -> None:
    """What only the organisation's list shows is not gone because that list is refused."""
    settings.MANAGEMENT_KEY = settings.MANAGEMENT_ORG_ID = "made-up"
    refused = False

    def answer(asked: Asked) -> Reply:
        if not asked.path.startswith("/v1/org/"):
            return Reply({"data": [account(1)]})
        return Reply({"detail": "no"}, 401) if refused else Reply({"data": [account(2)]})

    point(answer)
    assert once(ACCOUNTS).state == "done"
    refused = True
    run = once(ACCOUNTS)
    assert run.state != "done" and "management key was refused" in run.error
    assert LabAccount.objects.filter(missing_since=None).count() == 2
    refused = False
    assert once(ACCOUNTS).state == "done"


def account(number: int) -> dict[str, object]:
    return {
        "id": str(UUID(int=number)),
        "lab": "lab-north",
        "status": "active",
        "delegated_flow": "order_delegated",
        "provider_account_id": "A1",
        "team_id_allowlist": [],
    }
