"""The system status names every problem of a deployment to monitors and staff."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from backoffice.accounts.models import User
from backoffice.audit.models import AuditEntry
from backoffice.celery import QUEUES
from backoffice.core import heartbeats
from backoffice.core.models import Backup, Heartbeat, Hold
from backoffice.operations import postgres, status
from backoffice.outbox.models import CommandRecord
from backoffice.sync.models import Lookup, SyncRun
from tests.api.rows import staff
from tests.outbox.workers import environment
from tests.sync.back_office import BackOffice, end
from tests.waiting import wait_until
from webhooks.models import Event

TOKEN = "made-up-token-of-a-monitor"


@pytest.fixture
def healthy(db: None) -> None:
    """All workers answer, and there is a backup of today."""
    for queue in QUEUES:
        heartbeats.record_heartbeat(queue, "worker@here")
    Backup.objects.create(at=timezone.now(), seconds=1, bytes=1)


def reason_texts(**limits: float) -> list[str]:
    return [reason.words for reason in status.read(**limits).reasons]


def create_event(**values: Any) -> None:
    Event.objects.create(
        **{
            "message_id": "msg_1",
            "sent_at": timezone.now(),
            "body": b"{}",
            "body_digest": b"x",
            **values,
        }
    )


def create_waiting_event(minutes: float) -> None:
    create_event(received_at=ago(minutes=minutes), sent_at=ago(minutes=minutes))


def create_command(**values: Any) -> None:
    CommandRecord.objects.create(
        **{
            "kind": "order.cancel",
            "title": "Cancel the order",
            "subject_type": "order",
            "subject_id": "CANARY-SUBJECT",
            "payload": {},
            "form_id": "6f1c8f0e-0000-4000-8000-000000000001",
            "idempotency_key": "6f1c8f0e-0000-4000-8000-000000000002",
            "requested_by": staff("front desk"),
            **values,
        }
    )


def ago(**length: float) -> Any:
    return timezone.now() - timedelta(**length)


def make_queue_silent(name: str) -> None:
    Heartbeat.objects.filter(queue=name).update(at=ago(minutes=5))


PROBLEMS: dict[str, tuple[Callable[[], object], str]] = {
    "No worker has answered on the queue inbox for 5 min.": (
        lambda: make_queue_silent("inbox"),
        "failing",
    ),
    "No worker has answered on the queue bulk for 5 min.": (
        lambda: make_queue_silent("bulk"),
        "degraded",
    ),
    "No worker has answered on the queue outbox yet.": (
        lambda: Heartbeat.objects.filter(queue="outbox").delete(),
        "failing",
    ),
    "Events have been waiting 5 min to be applied.": (lambda: create_waiting_event(5), "degraded"),
    "Events have been waiting 20 min to be applied.": (lambda: create_waiting_event(20), "failing"),
    "1 event failed and needs a person to decide.": (
        lambda: create_event(state="dead"),
        "degraded",
    ),
    "The outcome of a request has been unknown for 11 min.": (
        lambda: create_command(state="uncertain", sent_at=ago(minutes=11)),
        "degraded",
    ),
    "A request has been waiting 3 h for a person to decide.": (
        lambda: create_command(state="undecided", sent_at=ago(hours=3)),
        "degraded",
    ),
    heartbeats.ON_HOLD: (lambda: Hold.objects.create(restored_to=timezone.now()), "degraded"),
    "Lists not read completely in time: Orders (changes).": (
        lambda: SyncRun.objects.create(
            resource="orders", full=False, state="running", created_at=ago(hours=1)
        ),
        "degraded",
    ),
    "Single records have been waiting 60 min to be read.": (
        lambda: Lookup.objects.create(kind="results", key="CANARY-KEY", due_at=ago(hours=1)),
        "degraded",
    ),
    "There is no backup from today. The last one is 2 d old.": (
        lambda: Backup.objects.update(at=ago(days=2)),
        "degraded",
    ),
    "No backup has been made yet.": (
        lambda: Backup.objects.all().delete(),
        "degraded",
    ),
}


@pytest.mark.usefixtures("healthy")
def test_status_is_ok_without_problems(client: Client, settings: Settings) -> None:
    settings.LOCAL, settings.HEALTH_TOKEN = False, TOKEN
    answer = client.get("/health/status", headers={"Authorization": f"Bearer {TOKEN}"})
    body = answer.json()
    assert (answer.status_code, body["status"], body["reasons"]) == (200, "ok", [])
    assert body["queues"].keys() == set(QUEUES)
    assert all(0 <= age < 30 for age in body["queues"].values())
    assert body["broker"]["ping_seconds"] < 0.5
    assert abs(body["database"]["clock_offset_seconds"]) < 1
    assert body["disk"]["free_bytes"] > 0
    assert body["version"] == "unreleased"
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("problem", PROBLEMS)
def test_status_names_each_problem_with_its_level(
    problem: str, client: Client, settings: Settings
) -> None:
    settings.LOCAL, settings.HEALTH_TOKEN = False, TOKEN
    create_problem, level = PROBLEMS[problem]
    create_problem()
    answer = client.get("/health/status", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.json()["reasons"] == [problem]
    assert answer.json()["status"] == level
    assert answer.status_code == (503 if level == "failing" else 200)
    assert "CANARY" not in json.dumps(answer.json())


@pytest.mark.usefixtures("healthy")
def test_status_is_degraded_without_redis(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert reason_texts() == ["Redis does not answer. Work is delayed, but nothing is lost."]


@pytest.mark.django_db(transaction=True)
def test_long_open_transaction_is_reported(settings: Settings) -> None:
    import psycopg

    for queue in QUEUES:
        heartbeats.record_heartbeat(queue, "worker@here")
    with psycopg.connect(environment()["DATABASE_URL"]) as other:
        other.execute("SELECT 1")
        wait_until(
            lambda: reason_texts(longest_transaction=0.05), 60, "the open transaction to be seen"
        )
        texts = reason_texts(longest_transaction=0.05)
        assert any(each.startswith("A transaction has been open for ") for each in texts)


@pytest.mark.django_db
def test_unsafe_postgresql_log_setting_is_reported() -> None:
    from django.db import connection

    assert postgres.unsafe_log_settings() == []
    assert postgres.check_log_settings(databases=["default"]) == []
    with connection.cursor() as cursor:
        cursor.execute("SET log_min_error_statement = 'error'")
        try:
            assert postgres.unsafe_log_settings() == ["log_min_error_statement = panic"]
            (warning,) = postgres.check_log_settings(databases=["default"])
            assert warning.hint == "Set log_min_error_statement = panic."
            assert "PostgreSQL may write health data into its log" in " ".join(reason_texts())
        finally:
            cursor.execute("RESET log_min_error_statement")


@pytest.mark.usefixtures("healthy")
def test_status_rejects_unauthorized_requests(client: Client, settings: Settings) -> None:
    assert client.get("/health/status").status_code == 401
    empty = client.get("/health/status", headers={"Authorization": "Bearer "})
    assert empty.status_code == 401, "no token is set, and none was sent"
    settings.HEALTH_TOKEN = TOKEN
    for header in (f"Bearer {TOKEN}x", f"Token {TOKEN}", TOKEN, "Bearer", "Bearer \xff"):
        answer = client.get("/health/status", headers={"Authorization": header})
        assert (answer.status_code, answer.json()) == (401, {"status": "unauthorized"}), header
    client.force_login(staff("front desk"))
    assert client.get("/health/status").status_code == 401
    client.force_login(staff("lab coordinator"))
    assert client.get("/health/status").status_code == 200


@pytest.mark.usefixtures("healthy")
def test_status_query_count_is_fixed(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    status.read()
    with django_assert_num_queries(20):
        status.read()


@pytest.mark.usefixtures("healthy")
def test_status_page_describes_problems_to_permitted_roles(client: Client) -> None:
    make_queue_silent("staff")
    client.force_login(staff("lab coordinator"))
    page = client.get("/system/status/").content.decode()
    assert "No worker has answered on the queue staff for 5 min." in page
    assert "Resume sending" not in page
    assert "flooded by unsigned deliveries" in page
    assert "body conflicts" not in page and "received again with different content" in page
    client.force_login(staff("front desk"))
    assert client.get("/system/status/").status_code == 403


@pytest.mark.usefixtures("healthy")
def test_permitted_person_releases_hold(client: Client) -> None:
    call_command("holdsending", "2026-11-22T10:00:00+00:00", stdout=StringIO())
    create_command(state="waiting")
    client.force_login(staff("auditor"))
    assert client.post("/system/status/release/").status_code == 403
    client.force_login(staff("lab coordinator"))
    page = client.get("/system/status/").content.decode()
    assert "Sending is on hold." in page and "Resume sending" in page
    assert client.get("/system/status/release/").status_code == 405
    assert client.post("/system/status/release/").status_code == 302
    hold = Hold.objects.get()
    assert hold.released_by == User.objects.get(username=client.get("/").wsgi_request.user.username)
    assert AuditEntry.objects.filter(object_type="hold", action="change").count() == 1
    assert "Sending is on hold." not in client.get("/system/status/").content.decode()
    with pytest.raises(CommandError, match="with its zone"):
        call_command("holdsending", "2026-11-22")


def test_readiness_fails_while_draining(
    client: Client, settings: Settings, tmp_path: Path, db: None
) -> None:
    settings.DRAIN_FILE = tmp_path / "draining"
    assert client.get("/health/ready").status_code == 200
    settings.DRAIN_FILE.touch()
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (503, {"status": "draining"})
    assert client.get("/health/live").status_code == 200


def test_beat_sends_heartbeat_to_every_queue() -> None:
    schedule = current_app.conf.beat_schedule
    queues = [
        entry["options"]["queue"]
        for entry in schedule.values()
        if entry["task"] == "backoffice.operations.tasks.heartbeat"
    ]
    assert sorted(queues) == sorted(QUEUES)


@pytest.mark.django_db(transaction=True)
def test_worker_records_heartbeat_of_its_queue(tmp_path: Path) -> None:
    """A real Celery worker with one queue records the heartbeat of that queue and no other."""
    back_office = BackOffice(environment()["DATABASE_URL"], "http://127.0.0.1:1", tmp_path / "log")
    worker = back_office.start(
        *("-m", "celery", "-A", "backoffice.celery", "worker", "--queues", "staff"),
        *("--hostname", "staff@test", "--concurrency", "1", "--without-gossip"),
    )
    try:

        def has_heartbeat() -> bool:
            current_app.send_task(
                "backoffice.operations.tasks.heartbeat", queue="staff", expires=30
            )
            return Heartbeat.objects.exists()

        wait_until(has_heartbeat, 60, "a heartbeat", 0.3)
    finally:
        end(worker)
    (beat,) = Heartbeat.objects.all()
    assert (beat.queue, beat.worker) == ("staff", "staff@test")
    assert heartbeats.heartbeat_ages()["staff"] < 60
