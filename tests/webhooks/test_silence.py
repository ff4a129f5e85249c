"""Silence: noticed, shown, and followed by asking the service to send again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.models import Lookup, SyncRun
from backoffice.service import Service
from patients.wearables.backfills import BACKFILL, Range
from tests.api.rows import order, staff, uid
from tests.wearables.test_pulls_page import pull
from tests.webhooks.events import event
from webhooks import silence
from webhooks.models import Event, Refusal

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def heard(now: datetime, *minutes_ago: float) -> None:
    for n, minutes in enumerate(minutes_ago, 1):
        event(n, received_at=now - timedelta(minutes=minutes))


def stepped(now: datetime, minutes_ago: float, n: int = 1, **values: Any) -> None:
    """A sync found that order `n` took a step."""
    at = now - timedelta(minutes=minutes_ago)
    order(n, **{"updated_at": at, "last_event_at": at, **values}).save()


def test_silence_is_a_long_pause_while_orders_move(now: datetime) -> None:
    heard(now, 30, 25, 20)
    assert not silence.read(now).silent
    stepped(now, 25, n=1)
    assert not silence.read(now).silent
    stepped(now, 9, n=2)
    stepped(now, 11, n=3)
    found = silence.read(now)
    assert found.silent
    assert found.step_at == now - timedelta(minutes=9)
    assert found.pause == timedelta(minutes=20)


@pytest.mark.parametrize(
    ("pause", "step_ago", "silent"),
    [(14, 10, False), (16, 10, True), (16, 1, False), (16, 13.9, True), (16, 15, False)],
)
def test_where_it_begins(now: datetime, pause: float, step_ago: float, silent: bool) -> None:
    """After the floor, when a step came after the last event and had time to be told."""
    heard(now, pause + 1, pause)
    stepped(now, step_ago)
    assert silence.read(now).silent is silent


def test_the_rhythm_is_learned(now: datetime) -> None:
    heard(now, 180, 140, 100, 60)
    stepped(now, 30)
    assert silence.read(now).usual == timedelta(minutes=80)
    assert not silence.read(now).silent
    assert silence.read(now + timedelta(minutes=21)).silent


def test_a_quiet_weekend_teaches_nothing(now: datetime) -> None:
    heard(now, 10_000, 400, 390)
    stepped(now, 30)
    assert silence.read(now).usual == silence.CEILING
    assert silence.read(now).silent


def test_changes_that_make_no_event_prove_nothing(now: datetime) -> None:
    heard(now, 90, 80)
    stepped(now, 9, n=1, last_event_at=now - timedelta(days=3))
    stepped(now, 9, n=2, low_level_status="partial_results")
    assert not silence.read(now).silent


def test_no_event_ever(now: datetime) -> None:
    stepped(now, 50, n=1)
    assert not silence.read(now).silent
    began = now - timedelta(minutes=40)
    SyncRun.objects.create(resource="orders", full=True, state="done", created_at=began)
    assert not silence.read(now).silent  # What was there before we looked.
    stepped(now, 30, n=2)
    assert silence.read(now).silent


@pytest.mark.parametrize(
    ("seconds", "differ"), [(0.4, False), (59, False), (61, True), (-90, True)]
)
def test_clocks_that_differ(now: datetime, seconds: float, differ: bool) -> None:
    for n in range(1, 8):
        at = now - timedelta(minutes=n)
        event(n, received_at=at, sent_at=at - timedelta(seconds=seconds))
    event(9, received_at=now, sent_at=now - timedelta(minutes=4))  # One late delivery is no skew.
    assert silence.read(now).clocks_differ is differ


def test_refused_deliveries_of_a_day(now: datetime) -> None:
    hour = now.replace(minute=0, second=0, microsecond=0)
    for hours_ago, reason, times in [
        (0, "bad signature", 3),
        (2, "bad signature", 4),
        (90, "old", 9),
    ]:
        Refusal.objects.create(hour=hour - timedelta(hours=hours_ago), reason=reason, times=times)
    Refusal.objects.create(hour=hour, reason="too large", times=1)
    assert silence.refused(now) == [
        {"reason": "bad signature", "count": 7},
        {"reason": "too large", "count": 1},
    ]


def test_it_is_shown(client: Client, now: datetime) -> None:
    client.force_login(staff("lab admin"))
    heard(now, 30, 20)
    addresses = ("/system/", "/system/events/")
    for address in addresses:
        assert "gone silent" not in client.get(address).content.decode()
    stepped(now, 9)
    event(9, received_at=now - timedelta(minutes=20), sent_at=now - timedelta(minutes=24))
    Event.objects.update(sent_at=now - timedelta(minutes=24))
    for address in addresses:
        page = client.get(address).content.decode()
        assert "The service has gone silent." in page
        assert "Ours is 4 min ahead of" in page


def test_the_health_answer_tells(client: Client, now: datetime) -> None:
    assert client.get("/health/inbox").json() == {"status": "ok", "inbox": []}
    heard(now, 30, 20)
    event(3, state="dead", received_at=now - timedelta(minutes=20))
    stepped(now, 9)
    answer = client.get("/health/inbox")
    assert answer.status_code == 200
    assert answer.json() == {"status": "attention", "inbox": ["silent", "failed events"]}
    event(4, state="pending", received_at=now - timedelta(minutes=3))
    assert "behind" in client.get("/health/inbox").json()["inbox"]


def test_in_silence_the_service_is_asked_to_send_again(now: datetime) -> None:
    heard(now, 30, 20)
    assert silence.notice() is False
    assert not Lookup.objects.exists()
    stepped(now, 9)
    assert silence.notice() is True
    asked = Lookup.objects.get()
    assert (asked.kind, asked.key) == (silence.RESEND, "orders")


def test_it_asks_twice_an_hour_at_most(now: datetime) -> None:
    heard(now, 30, 20)
    stepped(now, 9)
    silence.notice()
    Lookup.objects.update(due_at=None, looked_at=now - timedelta(minutes=29), generation=1)
    silence.notice()
    assert Lookup.objects.get().generation == 1
    Lookup.objects.update(looked_at=now - timedelta(minutes=31))
    silence.notice()
    assert Lookup.objects.get().generation == 2
    silence.notice()
    assert Lookup.objects.get().generation == 2  # Still due: no second reason.


def test_the_service_understands(service: Service, now: datetime) -> None:
    """The real call, against the sandbox."""
    heard(now, 30)
    record = silence.RESEND_SUBJECT.fetch(service, "orders")
    assert isinstance(record.data.order_ids, list)
    Event.objects.update(received_at=now - timedelta(days=300))
    silence.RESEND_SUBJECT.fetch(service, "orders")  # Not longer than the service allows.


def test_device_data_is_read_since_the_last_event(now: datetime) -> None:
    row = event(1, received_at=now - timedelta(hours=2))
    pull(1, ended_at=now)
    pull(2, status="failure")
    pull(3, days_with_data=0)
    assert silence.RESEND_SUBJECT.store({"orders": None}) == {}
    key = Range.of(Lookup.objects.get(kind=BACKFILL).key)
    assert (key.number, key.user_id, key.resource) == (row.pk, uid("patient", 1), "sleep")
    assert now - timedelta(hours=4) < key.start < now - timedelta(hours=2)
    assert key.end > now
    silence.RESEND_SUBJECT.store({"orders": None})
    assert Lookup.objects.get(kind=BACKFILL).generation == 2


def test_without_any_event_no_device_data_is_read(now: datetime) -> None:
    pull(1, ended_at=now)
    assert silence.RESEND_SUBJECT.store({"orders": None}) == {}
    assert not Lookup.objects.exists()
