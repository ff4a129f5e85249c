"""Sync runs against a service that limits, has a wrong clock or changes types (S6-S8, S17, S20).

The runs are in this process, on a real database, against a small HTTP server.
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

from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.mirror.tables import ApplyOutcome
from backoffice.service import Record
from backoffice.sync import server_clock
from backoffice.sync.lookups import LookupType, run_due_lookups
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import SyncedList, request_run, sync_when_due, work_on_run
from labs.models import LabAccount
from labs.sync import SYNCED_LISTS
from orders.models import Order
from orders.sync import ALL_ORDERS, CHANGED_ORDERS
from patients.models import Patient, Provider
from patients.sync import PROVIDER_LIST, USERS
from patients.wearables.sync import PULL_LIST
from tests.sync.conftest import StubService
from tests.sync.stub_server import IncomingRequest, Reply

pytestmark = pytest.mark.django_db(transaction=True)


ACCOUNT_LIST = next(each for each in SYNCED_LISTS if each.resource == "lab-accounts")


def work_once(synced_list: SyncedList) -> SyncRun:
    """Work once on a run, as the next tick would."""
    request_run(synced_list)
    SyncRun.objects.filter(state=SyncRun.State.DUE).update(due_at=datetime.now(UTC))
    run = work_on_run(synced_list)
    assert run is not None
    return run


def seconds_until_due(run: SyncRun) -> float:
    """Return the seconds until the run is due again."""
    return (run.due_at - datetime.now(UTC)).total_seconds()


PROVIDERS = [{"slug": "band-one", "name": "Band One"}, {"slug": "ring-one", "name": "Ring One"}]


def in_200_seconds() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=200), usegmt=True)


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [(lambda: "120", 115, 120), (lambda: "99999999", 295, 300), (in_200_seconds, 190, 200)],
)
def test_limited_run_waits_as_long_as_retry_after_says(
    stub_service: StubService, header: Callable[[], str], least: float, most: float
) -> None:
    """S8: the run waits as long as the service asks, at most 300 s. The worker does not wait."""
    stub_service(lambda request: Reply({"detail": "slow down"}, 429, {"retry-after": header()}))
    started = time.monotonic()
    run = work_once(PROVIDER_LIST)
    assert time.monotonic() - started < 5
    assert (run.state, run.attempts) == ("due", 1)
    assert "Limited" in run.error and least <= seconds_until_due(run) <= most
    assert work_on_run(PROVIDER_LIST) is None  # not before it is due


def test_negative_retry_after_is_ignored(stub_service: StubService) -> None:
    """A negative wait means no wait: a few attempts at once, then the next tick."""
    requests: list[IncomingRequest] = []

    def answer(request: IncomingRequest) -> Reply:
        requests.append(request)
        return Reply({}, 429, {"retry-after": "-1"})

    stub_service(answer)
    run = work_once(PROVIDER_LIST)
    assert run.state == "due" and seconds_until_due(run) <= 5 and len(requests) == 3


def test_run_waits_longer_while_service_is_down(stub_service: StubService) -> None:
    """S7: the wait grows with each failure. The first answer completes the same run."""
    down = True
    stub_service(lambda request: Reply({}, 503) if down else Reply(PROVIDERS))
    waited = []
    for attempt in range(1, 5):
        run = work_once(PROVIDER_LIST)
        assert (run.state, run.attempts) == ("due", attempt)
        waited.append(seconds_until_due(run))
    assert waited == sorted(waited) and waited[-1] > 10
    assert SyncRun.objects.count() == 1 and not Provider.objects.exists()
    down = False
    run = work_once(PROVIDER_LIST)
    assert (run.state, run.created, run.error) == ("done", 2, "")


@pytest.mark.parametrize("status", [401, 403])
def test_refused_key_is_not_retried_at_once(stub_service: StubService, status: int) -> None:
    """S13: the key is not used again at once, and the run shows the reason."""
    requests: list[IncomingRequest] = []

    def answer(request: IncomingRequest) -> Reply:
        requests.append(request)
        return Reply({"detail": "Missing or invalid API key"}, status)

    stub_service(answer)
    run = work_once(PROVIDER_LIST)
    assert run.state == "due" and "Denied" in run.error and len(requests) == 1


def test_rejected_cursor_restarts_the_list(stub_service: StubService) -> None:
    """S6: when the service rejects a cursor, the list starts again at its first page."""
    rejected: list[str] = []

    def answer(request: IncomingRequest) -> Reply:
        cursor = request.query.get("next_cursor")
        if cursor and not rejected:
            rejected.append(cursor)
            return Reply({"detail": "Invalid next_cursor"}, 400)
        report = {"user_id": str(UUID(int=2 if cursor else 1)), "provider": {}}
        return Reply({"data": [report], "next_cursor": None if cursor else "second"})

    stub_service(answer)
    run = work_once(PULL_LIST)
    assert run.state == "due" and "Refused 400" in run.error
    run = work_once(PULL_LIST)
    assert (run.state, run.fetched) == ("done", 2) and rejected == ["second"]


def test_repeating_cursor_fails_the_run(stub_service: StubService) -> None:
    """S5: the run fails with a message, and is not treated as a complete list."""
    stub_service(lambda request: Reply({"data": [], "next_cursor": "again"}))
    run = work_once(PULL_LIST)
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
def test_windows_use_the_clock_of_the_service(
    stub_service: StubService, settings: Settings, minutes: int
) -> None:
    """S17: windows use the service's clock and the overlap, whatever our clock shows."""
    service_now = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=minutes)
    windows: list[str | None] = []

    def answer(request: IncomingRequest) -> Reply:
        windows.append(request.query.get("updated_start_date"))
        date = format_datetime(service_now, usegmt=True)
        return Reply({"orders": [order(1, service_now)], "total": 1}, headers={"date": date})

    stub_service(answer)
    work_once(CHANGED_ORDERS)
    run = work_once(CHANGED_ORDERS)
    assert run.server_date == service_now
    expected = service_now - timedelta(seconds=settings.SYNC_OVERLAP_SECONDS)
    assert windows[-1] is not None and datetime.fromisoformat(windows[-1]) == expected


def test_window_moves_only_when_a_run_ends(stub_service: StubService) -> None:
    """S7: a run that fails half-way does not move the next window."""
    broken = False
    moment = datetime(2026, 5, 1, tzinfo=UTC)

    def answer(request: IncomingRequest) -> Reply:
        page = request.number("page", 1)
        if broken and page == 2:
            return Reply({}, 500)
        rows = [order(n, moment) for n in range(page * 100, page * 100 + (100 if page == 1 else 5))]
        return Reply({"orders": rows, "total": 105, "page": page, "size": 100})

    stub_service(answer)
    assert work_once(CHANGED_ORDERS).state == "done"
    window = server_clock.latest_window("orders")
    broken = True
    run = work_once(CHANGED_ORDERS)
    assert run.state == "due" and run.attempts == 1
    assert server_clock.latest_window("orders") == window


def test_pages_before_a_failure_are_stored_and_not_read_again(stub_service: StubService) -> None:
    """The pages received before the service fails are stored. The run resumes after them."""
    moment = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    rows = [order(n, moment + timedelta(minutes=n)) for n in range(1, 121)]
    broken = True
    starts: list[str | None] = []

    def answer(request: IncomingRequest) -> Reply:
        start = request.query.get("start_date")
        starts.append(start)
        if start and broken:
            return Reply({}, 500, {"retry-after": "0"})
        since = datetime.fromisoformat(start) if start else moment
        matching = [row for row in rows if datetime.fromisoformat(row["created_at"]) >= since]
        number = request.number("page", 1)
        page = matching[(number - 1) * 100 : number * 100]
        return Reply({"orders": page, "total": len(matching), "page": number, "size": 100})

    stub_service(answer)
    run = work_once(CHANGED_ORDERS)
    assert (run.state, run.attempts, run.fetched, run.created) == ("due", 1, 100, 100)
    assert "Unreachable" in run.error and seconds_until_due(run) > 1 and run.lease_until is None
    assert Order.objects.count() == 100
    assert run.checkpoint["since"] == rows[99]["created_at"]
    broken, before = False, len(starts)
    again = work_once(CHANGED_ORDERS)
    assert (again.pk, again.state, again.error) == (run.pk, "done", "")
    assert Order.objects.count() == 120 and again.created == 120
    # Before it resumes, the worker checks the team of the key by a request without a start.
    resumed = next(start for start in starts[before:] if start)
    assert datetime.fromisoformat(resumed) == moment + timedelta(minutes=100)


def test_failed_page_does_not_flag_rows_as_unseen(stub_service: StubService) -> None:
    """Rows on pages that could not be read are not treated as missing."""
    rows = [user(n) for n in range(1, 1_201)]
    broken = False

    def answer(request: IncomingRequest) -> Reply:
        offset = request.number("offset", 0)
        if broken and offset >= 1_000:
            return Reply({}, 500, {"retry-after": "0"})
        return Reply({"users": rows[offset : offset + 500], "total": len(rows)})

    stub_service(answer)
    assert work_once(USERS).created == 1_200
    Lookup.objects.all().delete()
    broken = True
    rows[5] = user(6, client_user_id="renamed")
    run = work_once(USERS)
    assert (run.state, run.changed, run.unseen) == ("due", 1, 0)
    assert Patient.objects.get(pk=UUID(int=6)).client_user_id == "renamed"
    assert not Lookup.objects.filter(kind="users").exists()


def test_internal_error_leaves_the_run_open_and_retries(stub_service: StubService) -> None:
    """The run stays open, reports an internal error and waits longer each time. It continues once
    the error is fixed."""

    def store(records: Sequence[Record[Any]]) -> ApplyOutcome:
        raise ZeroDivisionError("with a text that nobody should read")

    stub_service(lambda request: Reply(PROVIDERS))
    broken = replace(PROVIDER_LIST, store=store)
    waited = []
    for attempt in range(1, 5):
        run = work_once(broken)
        assert (run.state, run.attempts) == ("due", attempt)
        assert run.error == "internal error: ZeroDivisionError" and run.lease_until is None
        waited.append(seconds_until_due(run))
    assert waited == pytest.approx([2, 5, 15, 30], abs=1)
    assert SyncRun.objects.count() == 1
    run = work_once(PROVIDER_LIST)
    assert (run.state, run.created, run.error, run.attempts) == ("done", 2, "", 0)


@pytest.mark.parametrize(
    ("state", "minutes", "requested_again"),
    [("failed", 14, False), ("failed", 16, True), ("done", 16, False), ("done", 60 * 25, True)],
)
def test_failed_run_is_requested_again_sooner(
    stub_service: StubService, state: str, minutes: int, requested_again: bool
) -> None:
    stub_service(lambda request: Reply(PROVIDERS))
    ago = datetime.now(UTC) - timedelta(minutes=minutes)
    SyncRun.objects.create(resource="providers", full=True, state=state, created_at=ago)
    sync_when_due(PROVIDER_LIST, seconds=5)
    states = list(SyncRun.objects.order_by("created_at").values_list("state", flat=True))
    assert states == ([state, "done"] if requested_again else [state])


def user(number: int, **changes: object) -> dict[str, object]:
    return {
        "user_id": str(UUID(int=number)),
        "team_id": str(UUID(int=99)),
        "client_user_id": f"client-{number}",
        "created_on": "2026-03-01T08:00:00+00:00",
        "connected_sources": [],
        **changes,
    }


def test_record_with_changed_field_type_is_stored_unread(stub_service: StubService) -> None:
    """S20: the record is stored as unread, the row stays unchanged, and drift names the path."""
    rows = [user(1), user(2), user(3)]
    stub_service(lambda request: Reply({"users": rows, "total": 3}))
    assert work_once(USERS).created == 3
    rows[1] = user(2, created_on={"at": "2026-03-01"})
    rows[2] = user(3, client_user_id="renamed")
    run = work_once(USERS)
    assert (run.state, run.changed, run.unreadable, run.unseen) == ("done", 1, 1, 0)
    unread = UnreadRecord.objects.get()
    assert (unread.resource, unread.key) == ("users", str(UUID(int=2)))
    assert unread.path == "$.created_on" and '"at"' in unread.record.replace(" ", "")
    drift = Drift.objects.get()
    assert (drift.kind, drift.key) == ("schema", str(UUID(int=2))) and "created_on" in drift.detail
    patients = dict(Patient.objects.values_list("pk", "client_user_id"))
    assert patients[UUID(int=2)] == "client-2" and patients[UUID(int=3)] == "renamed"
    assert not Patient.objects.exclude(missing_since=None).exists()


def test_user_missing_from_list_is_checked_by_lookup(stub_service: StubService) -> None:
    """A row that is no longer in the list is looked up. The answer decides if it is missing."""
    rows = [user(1), user(2), user(3)]
    singles = {1: Reply(user(1)), 2: Reply({"detail": "User not found"}, 404)}

    def answer(request: IncomingRequest) -> Reply:
        if request.path.startswith("/v2/user/0"):
            return singles[UUID(request.path.rsplit("/", 1)[1]).int]
        return Reply({"users": rows, "total": len(rows)})

    stub_service(answer)
    work_once(USERS)
    Lookup.objects.all().delete()
    rows[:] = [user(3)]
    assert work_once(USERS).unseen == 2
    assert not Patient.objects.exclude(missing_since=None).exists()
    run_due_lookups([lookup_type for lookup_type in _lookup_types() if lookup_type.kind == "users"])
    gone = Patient.objects.exclude(missing_since=None).values_list("pk", flat=True)
    assert list(gone) == [UUID(int=2)]
    rows[:] = [user(2), user(3)]
    work_once(USERS)
    assert not Patient.objects.exclude(missing_since=None).exists()


def _lookup_types() -> tuple[LookupType, ...]:
    from patients.sync import LOOKUP_TYPES

    return LOOKUP_TYPES


def test_sweep_reports_and_repairs_drift(stub_service: StubService) -> None:
    """Changes that an earlier run should have brought are reported as drift and repaired."""
    old = datetime(2026, 5, 1, tzinfo=UTC)
    rows = [order(n, old + timedelta(minutes=n)) for n in range(1, 6)]

    def answer(request: IncomingRequest) -> Reply:
        if "updated_start_date" in request.query:
            return Reply({"orders": [], "total": 0})
        return Reply({"orders": rows, "total": len(rows)})

    stub_service(answer)
    work_once(CHANGED_ORDERS)  # only changes of today
    assert work_once(ALL_ORDERS).drifted == 0  # the first sweep brings everything
    work_once(CHANGED_ORDERS)
    Order.objects.filter(pk=UUID(int=3)).delete()
    rows[1] = order(2, old + timedelta(minutes=2)) | {"passthrough": "late"}
    run = work_once(ALL_ORDERS)
    assert run.drifted == 2
    found = set(Drift.objects.values_list("key", "kind"))
    assert found == {(str(UUID(int=3)), "missing_local"), (str(UUID(int=2)), "stale")}
    assert Order.objects.get(pk=UUID(int=2)).passthrough == "late"
    assert Order.objects.filter(pk=UUID(int=3)).exists()


def test_only_one_run_of_a_list_is_open(stub_service: StubService) -> None:
    """S16: however often a run is requested, one is open."""
    stub_service(lambda request: Reply(PROVIDERS))
    assert request_run(PROVIDER_LIST) is not None
    assert request_run(PROVIDER_LIST) is None
    for _ in range(5):
        sync_when_due(PROVIDER_LIST, seconds=5)
    assert SyncRun.objects.count() == 1


@pytest.mark.parametrize("ahead", [timedelta(days=1), timedelta(hours=-1), timedelta(days=-400)])
def test_worker_with_wrong_clock_takes_over_no_run(
    stub_service: StubService, ahead: timedelta
) -> None:
    """Leases and due times use the clock of the database, not the clock of a worker."""
    stub_service(lambda request: Reply(PROVIDERS))
    run = request_run(PROVIDER_LIST)
    assert run is not None
    leased = datetime.now(UTC) + timedelta(seconds=60)
    SyncRun.objects.filter(pk=run.pk).update(state="running", fence=1, lease_until=leased)
    with time_machine.travel(datetime.now(UTC) + ahead, tick=True):
        assert work_on_run(PROVIDER_LIST) is None
        SyncRun.objects.filter(pk=run.pk).update(lease_until=leased - timedelta(seconds=70))
        taken_over = work_on_run(PROVIDER_LIST)
    assert taken_over is not None and (taken_over.state, taken_over.fence) == ("done", 2)


def test_refused_management_key_flags_no_account(
    stub_service: StubService, settings: Settings
) -> None:
    """Accounts that only the organization's list shows are not missing when it is refused."""
    settings.MANAGEMENT_KEY = settings.MANAGEMENT_ORG_ID = "made-up"
    refused = False

    def answer(request: IncomingRequest) -> Reply:
        if not request.path.startswith("/v1/org/"):
            return Reply({"data": [account(1)]})
        return Reply({"detail": "no"}, 401) if refused else Reply({"data": [account(2)]})

    stub_service(answer)
    assert work_once(ACCOUNT_LIST).state == "done"
    refused = True
    run = work_once(ACCOUNT_LIST)
    assert run.state != "done" and "management key was refused" in run.error
    assert LabAccount.objects.filter(missing_since=None).count() == 2
    refused = False
    assert work_once(ACCOUNT_LIST).state == "done"


def account(number: int) -> dict[str, object]:
    return {
        "id": str(UUID(int=number)),
        "lab": "lab-north",
        "status": "active",
        "delegated_flow": "order_delegated",
        "provider_account_id": "A1",
        "team_id_allowlist": [],
    }
