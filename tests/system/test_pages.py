"""System: how current the mirror is."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.core.models import UnknownValue
from backoffice.management.commands.sync import SYNCED_LISTS
from backoffice.mirror.models import Drift, UnreadRecord
from backoffice.pages import sync_health
from backoffice.sync.models import Lookup, SyncRun
from backoffice.sync.runs import SyncedList
from tests.api.rows import staff

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def run(resource: str, minutes_ago: int, **values: Any) -> SyncRun:
    begun = NOW - timedelta(minutes=minutes_ago)
    return SyncRun.objects.create(
        **{
            "resource": resource,
            "full": False,
            "state": "done",
            "created_at": begun,
            "started_at": begun,
            "finished_at": begun + timedelta(seconds=10),
            "fetched": 500,
            **values,
        }
    )


@pytest.fixture(autouse=True)
def _logged_in(client: Client) -> None:
    client.force_login(staff("lab coordinator"))


def test_nothing_has_run_yet(client: Client) -> None:
    page = client.get("/system/").content.decode()
    assert "No sync has run yet" in page
    assert "Every value the service has sent is known." in page


def test_each_list_shows_its_latest_and_last_completed_run() -> None:
    run("orders", 500, full=True)
    sweep = run("orders", 300, full=True)
    sweeping = run("orders", 5, full=True, state="running", finished_at=None)
    success = run("orders", 3)
    latest = run("orders", 1, state="running", finished_at=None)
    only = run("labs", 60, full=True, state="failed", error="The list repeats itself.")
    labs, changes, everything = sync_health.list_health()
    assert (changes.latest, changes.latest_done, changes.full) == (latest, success, False)
    assert (everything.latest, everything.latest_done, everything.full) == (sweeping, sweep, True)
    assert changes.as_of == success.started_at
    assert (labs.latest, labs.latest_done, labs.as_of) == (only, None, None)


def test_data_is_as_old_as_the_oldest_list() -> None:
    run("orders", 1)
    run("orders", 600, full=True)
    users = run("users", 9, full=True)
    assert sync_health.data_as_of(sync_health.list_health()) == users.started_at
    run("markers", 1, full=True, state="running", finished_at=None)
    assert sync_health.data_as_of(sync_health.list_health()) is None


@pytest.mark.parametrize(
    ("resource", "full", "minutes", "late"),
    [
        ("orders", False, 2, False),
        ("orders", False, 3, True),
        ("orders", True, 60, False),
        ("pulls", True, 40, False),
        ("pulls", True, 50, True),
        ("users", True, 170, False),
        ("users", True, 190, True),
        ("unmatched", True, 3, False),
        ("unmatched", True, 5, True),
        ("labs", True, 71 * 60, False),
        ("labs", True, 73 * 60, True),
    ],
)
def test_late_is_three_rounds_without_a_complete_run(
    resource: str, full: bool, minutes: int, late: bool
) -> None:
    run(resource, minutes, full=full)
    assert [walk.is_late(NOW) for walk in sync_health.list_health()] == [late]
    run(resource, 1, full=full, state="running", finished_at=None)
    assert [walk.is_late(NOW) for walk in sync_health.list_health()] == [late]


@pytest.mark.parametrize("synced_list", SYNCED_LISTS, ids=lambda one: f"{one.resource}-{one.full}")
def test_what_is_told_of_a_list_is_how_often_it_is_read(
    synced_list: SyncedList, settings: Any
) -> None:
    names = [
        name for name in dir(settings) if re.fullmatch("SYNC_.*_(SECONDS|MINUTES|HOURS)", name)
    ]
    for number, name in enumerate(names, 2):
        setattr(settings, name, number)
    run(synced_list.resource, 1, full=synced_list.full)
    assert [walk.interval for walk in sync_health.list_health()] == [synced_list.interval()]


@pytest.mark.parametrize("state", ["due", "running", "failed"])
def test_a_list_that_never_came_to_its_end_is_late_too(state: str) -> None:
    run("pulls", 50, full=True, state="failed")
    run("pulls", 1, full=True, state=state, finished_at=None, attempts=3)
    assert [walk.is_late(NOW) for walk in sync_health.list_health()] == [True]


def test_a_list_that_keeps_failing_is_late_and_says_why(client: Client) -> None:
    run("orders", 60)
    run("orders", 59, state="due", finished_at=None, attempts=40, error="Refused: 500")
    page = client.get("/system/").content.decode()
    for words in (
        "Retrying, 40 failed",
        "Refused: 500",
        "Orders (changes): the latest run did not complete",
        "Orders (changes): not read completely in time",
        "due every 30 s",
    ):
        assert words in page, words


def test_a_late_list_is_said_so(client: Client) -> None:
    run("orders", 60)
    page = client.get("/system/").content.decode()
    assert "(changes): not read completely in time. Check that the worker is running." in page
    assert "due every 30 s" in page


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"state": "done"}, "Done"),
        ({"state": "failed"}, "Failed"),
        ({"state": "running"}, "Running"),
        ({"state": "due"}, "Due"),
        ({"state": "due", "attempts": 2}, "Retrying"),
    ],
)
def test_the_word_for_a_run(values: dict[str, Any], word: str) -> None:
    assert sync_health.state_of(SyncRun(**values))[2] == word


def test_the_page_shows_progress_rates_and_errors(client: Client) -> None:
    run("orders", 2)
    run("users", 1, state="running", finished_at=None, total=5000, fetched=1250)
    run("labs", 1, state="due", finished_at=None, attempts=2, error="The service did not answer.")
    page = client.get("/system/").content.decode()
    assert "50/s" in page
    assert 'max="5000" value="1250"' in page
    assert "The service did not answer." in page
    assert "Labs (changes): the latest run did not complete" in page


def test_look_ups_due_and_failing(client: Client) -> None:
    for n in range(3):
        Lookup.objects.create(kind="results", key=str(n), due_at=NOW - timedelta(hours=1))
    Lookup.objects.create(kind="results", key="later", due_at=NOW + timedelta(days=1))
    Lookup.objects.create(kind="results", key="never", due_at=None)
    Lookup.objects.create(kind="connections", key="x", due_at=None, error="Refused: 500")
    connections, results = sync_health.lookups()
    assert (results.kind, str(results.due), str(results.failing)) == ("results", "3", "0")
    assert results.oldest_due == NOW - timedelta(hours=1)
    assert (str(connections.due), str(connections.failing)) == ("0", "1")
    assert connections.error == "Refused: 500"
    assert "Refused: 500" in client.get("/system/").content.decode()


def test_unknown_values_unread_records_and_differences(client: Client) -> None:
    UnknownValue.objects.create(
        vocabulary="order.low_level_status", value="teleported", sightings=1234
    )
    UnreadRecord.objects.create(
        resource="orders", key="k1", path="$.updated_at", reason="not a date", record="{}"
    )
    Drift.objects.create(resource="orders", key="k2", kind="stale")
    page = client.get("/system/").content.decode()
    for words in ("teleported", "1,234", "$.updated_at", "not a date", "Out of date here"):
        assert words in page
    assert "Counted as" not in page


def test_all_differences_page_by_page(client: Client) -> None:
    Drift.objects.bulk_create(
        Drift(resource="orders", key=f"k{n}", kind="stale", found_at=NOW) for n in range(70)
    )
    assert "All differences" in client.get("/system/").content.decode()
    first = client.get("/system/drift/").context["page"]
    second = client.get("/system/drift/", {"after": first.next}).context["page"]
    assert len({row.key for row in first.rows + second.rows}) == 70
    assert second.next is None


def test_unread_records_are_filtered_and_show_no_content(client: Client) -> None:
    UnreadRecord.objects.create(resource="orders", key="k1", reason="not a date", record="secret")
    UnreadRecord.objects.create(resource="labs", key="k2", record="{}", is_stored=True)
    page = client.get("/system/unread/").content.decode()
    assert "not a date" in page and "Rest stored" in page
    assert "secret" not in page
    for query, keys in (
        ({"resource": "orders"}, ["k1"]),
        ({"record": " k2 "}, ["k2"]),
        ({"stored": "part"}, ["k2"]),
        ({"stored": "nothing"}, ["k1"]),
        ({"day": "yesterday"}, []),
    ):
        rows = client.get("/system/unread/", query).context["page"].rows
        assert [row.key for row in rows] == keys, query


def test_differences_are_filtered(client: Client) -> None:
    Drift.objects.create(resource="orders", key="k1", kind="stale", found_at=NOW)
    Drift.objects.create(
        resource="labs", key="k2", kind="missing_local", found_at=NOW - timedelta(days=40)
    )
    for query, keys in (
        ({"resource": "labs"}, ["k2"]),
        ({"resource": ["labs", "orders"]}, ["k1", "k2"]),
        ({"resource": "comets"}, []),
        ({"kind": "stale"}, ["k1"]),
        ({"record": "k2"}, ["k2"]),
        ({"day": "last_30"}, ["k1"]),
        ({"until": (NOW - timedelta(days=3)).date().isoformat()}, ["k2"]),
    ):
        rows = client.get("/system/drift/", query).context["page"].rows
        assert [row.key for row in rows] == keys, query


def test_runs_are_filtered_by_state_as_shown(client: Client) -> None:
    done = run("orders", 5)
    failed = run("orders", 4, state="failed", full=True, error="The list repeats itself.")
    retrying = run("orders", 3, state="due", attempts=2, finished_at=None)
    running = run("labs", 2, state="running", finished_at=None)
    due = run("users", 1, state="due", started_at=None, finished_at=None)
    page = client.get("/system/runs/").content.decode()
    assert "Retrying, 2 failed" in page and "The list repeats itself." in page
    for query, runs in (
        ({"state": "done"}, [done]),
        ({"state": "failed"}, [failed]),
        ({"state": "retrying"}, [retrying]),
        ({"state": ["due", "running"]}, [due, running]),
        ({"scope": "full"}, [failed]),
        ({"scope": "changes", "resource": "orders"}, [retrying, done]),
    ):
        assert client.get("/system/runs/", query).context["page"].rows == runs, query


def test_runs_of_one_list(client: Client) -> None:
    for n in range(60):
        run("orders", n)
    run("labs", 1)
    page = client.get("/system/runs/", {"resource": "orders"}).context["page"]
    assert len(page.rows) == 50
    assert page.rows[0].created_at == NOW
    rest = client.get("/system/runs/", {"resource": "orders", "after": page.next}).context["page"]
    assert len(rest.rows) == 10
    every = client.get("/system/runs/").context["page"].rows
    assert {row.resource for row in every} == {"orders", "labs"}
    assert client.get("/system/runs/", {"resource": "a\x00"}).status_code == 400


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "1e400", "NaN", "1" * 40, "true"])
def test_a_cursor_with_an_odd_number_breaks_nothing(client: Client, number: str) -> None:
    run("orders", 1)
    edge = f'["{NOW.isoformat()}",{number}]'
    cursor = base64.urlsafe_b64encode(edge.encode()).decode().rstrip("=")
    assert client.get("/system/runs/", {"after": cursor}).status_code == 200


@pytest.mark.parametrize(
    "address", ["/system/", "/system/runs/", "/system/drift/", "/system/unread/"]
)
def test_staff_of_the_front_desk_are_refused(client: Client, address: str) -> None:
    client.force_login(staff("front desk"))
    assert client.get(address).status_code == 403


@pytest.mark.parametrize("rows", [1, 30])
def test_queries_do_not_grow(client: Client, rows: int, django_assert_num_queries: Any) -> None:
    for n in range(rows):
        run(f"list-{n}", 1)
        run(f"list-{n}", 2)
        Lookup.objects.create(kind=f"kind-{n}", key="x")
        UnknownValue.objects.create(vocabulary="order.method", value=str(n))
        UnreadRecord.objects.create(resource="orders", key=str(n), record="{}")
        Drift.objects.create(resource="orders", key=str(n), kind="stale")
    client.get("/system/")  # The first page of a session stores its form token.
    # Session, user with roles; the numbers of the frame; runs twice, look-ups, differences, unknown
    # values, unread records; the inbox: its rhythm, runs that changed something, stale deliveries,
    # floods, body conflicts, refused, waiting longest.
    with django_assert_num_queries(2 + 1 + 6 + 7):
        client.get("/system/")
    client.get("/system/runs/")  # The first visit has no counts of the views yet.
    # Saved views and columns, counts on the tabs, rows found by key, the page, the choices of the
    # filter, the audit entry.
    with django_assert_num_queries(2 + 1 + 8):
        client.get("/system/runs/")
