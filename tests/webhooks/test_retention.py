"""Old bodies are forgotten; what makes a repeat a repeat stays."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from backoffice.celery import app
from tests.api.rows import staff
from tests.webhooks.events import event
from webhooks import retention, tasks
from webhooks.models import Event

pytestmark = pytest.mark.django_db

STATES = ("done", "skipped", "quarantined", "dead", "retry", "pending")


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def ids_with_body() -> set[str]:
    return set(Event.objects.exclude(body=None).values_list("message_id", flat=True))


def test_old_bodies_of_closed_events_are_deleted(now: datetime, client: Client) -> None:
    for n, state in enumerate(STATES, 1):
        event(n, state=state, received_at=now - timedelta(days=91))
    event(7, received_at=now - timedelta(days=89))
    before = list(
        Event.objects.values_list("message_id", "body_digest", "subject_id").order_by("pk")
    )
    tasks.delete_old_bodies()
    assert ids_with_body() == {"msg_4", "msg_5", "msg_6", "msg_7"}
    after = Event.objects.values_list("message_id", "body_digest", "subject_id").order_by("pk")
    assert list(after) == before
    client.force_login(staff("lab admin"))
    first = Event.objects.order_by("pk")[0]
    assert b"The content has been deleted" in client.get(f"/system/events/{first.pk}/").content
    assert retention.delete_old_bodies() == 0


def test_body_of_late_event_is_deleted_late(now: datetime) -> None:
    late = event(1, state="dead", received_at=now - timedelta(days=100))
    event(2, received_at=now - timedelta(days=99))
    assert retention.delete_old_bodies() == 1
    Event.objects.filter(pk=late.pk).update(state="done")
    assert retention.delete_old_bodies() == 1


def test_in_steps(now: datetime) -> None:
    for n in range(1, 6):
        event(n, received_at=now - timedelta(days=91, minutes=-n))
    assert retention.delete_old_bodies(seconds=0, step=2) == 2
    assert ids_with_body() == {"msg_3", "msg_4", "msg_5"}
    assert retention.delete_old_bodies(step=2) == 3


@pytest.mark.parametrize(("days", "forgotten"), [(0, 0), (30, 1), (40, 0)])
def test_retention_days_are_a_setting(
    now: datetime, settings: Any, days: int, forgotten: int
) -> None:
    settings.EVENT_BODY_DAYS = days
    event(1, received_at=now - timedelta(days=35))
    event(2, received_at=now)
    assert retention.delete_old_bodies() == forgotten


def test_the_index_answers_it(now: datetime) -> None:
    """Not the walk through all that was forgotten before."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + retention._DELETE_BODIES_SQL, [10**6, retention.STEP])
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "event_with_body" in plan, plan


def test_beat_schedules_body_retention() -> None:
    lines = app.conf.beat_schedule.values()
    (line,) = [line for line in lines if line["task"] == "webhooks.tasks.delete_old_bodies"]
    assert line["schedule"] == timedelta(hours=1)
