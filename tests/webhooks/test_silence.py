"""Silence: noticed, shown, and followed by asking the service to send again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from backoffice.service import Service
from backoffice.sync.models import Lookup, SyncRun
from patients.wearables.backfills import BACKFILL, BackfillRange
from tests.api.rows import order, staff, uid
from tests.wearables.test_pulls_page import pull
from tests.webhooks.events import event
from webhooks import silence
from webhooks.models import Event, Refusal

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def receive_events(now: datetime, *minutes_ago: float) -> None:
    for n, minutes in enumerate(minutes_ago, 1):
        event(n, received_at=now - timedelta(minutes=minutes))


def stepped(now: datetime, minutes_ago: float, n: int = 1, **values: Any) -> None:
    """A sync found that order `n` took a step."""
    at = now - timedelta(minutes=minutes_ago)
    order(n, **{"updated_at": at, "last_event_at": at, **values}).save()


def test_long_pause_while_orders_change_is_silence(now: datetime) -> None:
    receive_events(now, 30, 25, 20)
    assert not silence.read(now).is_silent
    stepped(now, 25, n=1)
    assert not silence.read(now).is_silent
    stepped(now, 9, n=2)
    stepped(now, 11, n=3)
    found = silence.read(now)
    assert found.is_silent
    assert found.unannounced_step_at == now - timedelta(minutes=9)
    assert found.pause == timedelta(minutes=20)


@pytest.mark.parametrize(
    ("pause", "step_ago", "is_silent"),
    [(14, 10, False), (16, 10, True), (16, 1, False), (16, 13.9, True), (16, 15, False)],
)
def test_silence_begins_after_usual_pause(
    now: datetime, pause: float, step_ago: float, is_silent: bool
) -> None:
    """After the floor, when a step came after the last event and had time to be told."""
    receive_events(now, pause + 1, pause)
    stepped(now, step_ago)
    assert silence.read(now).is_silent is is_silent


def test_usual_pause_is_learned_from_events(now: datetime) -> None:
    receive_events(now, 180, 140, 100, 60)
    stepped(now, 30)
    assert silence.read(now).usual_pause == timedelta(minutes=80)
    assert not silence.read(now).is_silent
    assert silence.read(now + timedelta(minutes=21)).is_silent


def test_usual_pause_has_upper_limit(now: datetime) -> None:
    receive_events(now, 10_000, 400, 390)
    stepped(now, 30)
    assert silence.read(now).usual_pause == silence.LONGEST_USUAL_PAUSE
    assert silence.read(now).is_silent


def test_changes_without_event_are_no_silence(now: datetime) -> None:
    receive_events(now, 90, 80)
    stepped(now, 9, n=1, last_event_at=now - timedelta(days=3))
    stepped(now, 9, n=2, low_level_status="partial_results")
    assert not silence.read(now).is_silent


def test_silence_without_any_event(now: datetime) -> None:
    stepped(now, 50, n=1)
    assert not silence.read(now).is_silent
    began = now - timedelta(minutes=40)
    SyncRun.objects.create(resource="orders", full=True, state="done", created_at=began)
    assert not silence.read(now).is_silent  # What was there before we looked.
    stepped(now, 30, n=2)
    assert silence.read(now).is_silent


@pytest.mark.parametrize(
    ("seconds", "differ"), [(0.4, False), (59, False), (61, True), (-90, True)]
)
def test_clock_skew_is_detected(now: datetime, seconds: float, differ: bool) -> None:
    for n in range(1, 8):
        at = now - timedelta(minutes=n)
        event(n, received_at=at, sent_at=at - timedelta(seconds=seconds))
    event(9, received_at=now, sent_at=now - timedelta(minutes=4))  # One late delivery is no skew.
    assert silence.read(now).clocks_differ is differ


def test_repeat_with_other_body_is_shown(client: Client, now: datetime) -> None:
    event(1, body_conflict=True, received_at=now)
    assert client.get("/health/inbox").json()["inbox"] == ["body conflicts"]
    Event.objects.update(last_received_at=now - timedelta(hours=25))
    assert client.get("/health/inbox").json()["inbox"] == []
    Event.objects.update(last_received_at=now)
    refusal = Refusal.objects.create(
        hour=now, reason="unsigned", times=30, flood_at=now, last_at=now
    )
    client.force_login(staff("lab admin"))
    page = client.get("/system/").content.decode()
    for words in (
        "was received again with different content",
        "Many deliveries without a valid signature",
        f"{refusal.times} unsigned",
    ):
        assert words in page, words


def test_recent_refusals_are_counted_by_reason(now: datetime) -> None:
    hour = now.replace(minute=0, second=0, microsecond=0)
    for hours_ago, reason, times in [
        (0, "bad signature", 3),
        (2, "bad signature", 4),
        (90, "old", 9),
    ]:
        Refusal.objects.create(hour=hour - timedelta(hours=hours_ago), reason=reason, times=times)
    Refusal.objects.create(hour=hour, reason="too large", times=1)
    assert silence.recent_refusals(now) == [
        silence.RefusalCount("bad signature", 7),
        silence.RefusalCount("too large", 1),
    ]


def test_silence_is_shown_on_pages(client: Client, now: datetime) -> None:
    client.force_login(staff("lab admin"))
    receive_events(now, 30, 20)
    addresses = ("/system/", "/system/events/")
    for address in addresses:
        assert "No events from the lab service" not in client.get(address).content.decode()
    stepped(now, 9)
    event(9, received_at=now - timedelta(minutes=20), sent_at=now - timedelta(minutes=24))
    Event.objects.update(sent_at=now - timedelta(minutes=24))
    for address in addresses:
        page = client.get(address).content.decode()
        assert "No events from the lab service." in page
        assert "This server’s clock is 4 min ahead of the lab service" in page


def test_inbox_health_lists_reasons(client: Client, now: datetime) -> None:
    assert client.get("/health/inbox").json() == {"status": "ok", "inbox": []}
    receive_events(now, 30, 20)
    event(3, state="dead", received_at=now - timedelta(minutes=20))
    stepped(now, 9)
    answer = client.get("/health/inbox")
    assert answer.status_code == 200
    assert answer.json() == {"status": "attention", "inbox": ["silent", "failed events"]}
    event(4, state="pending", received_at=now - timedelta(minutes=3))
    assert "behind" in client.get("/health/inbox").json()["inbox"]


def gap() -> Lookup:
    return Lookup.objects.get(kind=silence.RESEND)


def last() -> silence.Gap:
    row = Event.objects.order_by("-pk").first()
    assert row is not None
    return silence.Gap(row.pk, row.received_at)


def test_silence_schedules_resend(now: datetime) -> None:
    receive_events(now, 30, 20)
    assert silence.schedule_resends() is False
    assert not Lookup.objects.exists()
    stepped(now, 9)
    assert silence.schedule_resends() is True
    assert silence.Gap.parse(gap().key) == last()
    assert silence.schedule_resends() is True
    assert gap().generation == 1  # One silence, one reason.


def answer(key: str, asked_at: datetime) -> timedelta | None:
    return silence.RESEND_LOOKUPS.store({key: (asked_at, None)})[key]


def test_resend_repeats_until_silence_ends(now: datetime) -> None:
    receive_events(now, 30, 20)
    key = last().key()
    assert answer(key, now - timedelta(minutes=5)) == silence.RESEND_INTERVAL
    event(9, received_at=now)
    # Asked before the endpoint was back: what was sent then may have met a closed door.
    assert answer(key, now - timedelta(seconds=1)) == silence.RESEND_INTERVAL
    assert answer(key, now + timedelta(seconds=1)) is None


class Asked:
    """Hands every call on to the real client, and remembers the windows asked for."""

    def __init__(self, service: Service) -> None:
        self.orders = self
        self._real = service.orders
        self.windows: list[tuple[datetime, datetime]] = []

    def resend_events(self, *, start_at: datetime, end_at: datetime) -> Any:
        self.windows.append((start_at, end_at))
        return self._real.resend_events(start_at=start_at, end_at=end_at)


def test_resend_covers_gap_after_its_end(service: Service, now: datetime) -> None:
    """The real call, against the sandbox."""
    receive_events(now, 300, 290)
    stepped(now, 60)
    assert silence.schedule_resends()
    began = last().began
    event(9, received_at=now)
    assert not silence.schedule_resends()
    spy: Any = Asked(service)
    _, record = silence.RESEND_LOOKUPS.fetch(spy, gap().key)
    assert isinstance(record.data.order_ids, list)
    ((start, end),) = spy.windows
    assert began is not None
    assert start == began - silence.OVERLAP
    assert end >= now


def test_unnoticed_silence_schedules_resend(now: datetime) -> None:
    """As when this side was down as well: the events of the end are there before the next look."""
    receive_events(now, 300, 295, 290)
    gap_of = last()
    for n in range(10, 230):
        event(n, received_at=now - timedelta(minutes=4))
    assert silence.schedule_resends() is False
    assert not Lookup.objects.exists()  # No order took a step meanwhile: it was quiet.
    stepped(now, 60)
    assert silence.schedule_resends() is False
    assert silence.Gap.parse(gap().key) == gap_of
    Lookup.objects.all().delete()
    Event.objects.filter(pk__gt=gap_of.number).update(received_at=now - timedelta(minutes=31))
    silence.schedule_resends()
    assert not Lookup.objects.exists()  # That was for earlier looks to see.


def test_resend_window_is_limited(service: Service, now: datetime) -> None:
    spy: Any = Asked(service)
    for began in (now - timedelta(days=300), None, now + timedelta(days=1)):
        asked_at, _ = silence.RESEND_LOOKUPS.fetch(spy, silence.Gap(1, began).key())
        start, end = spy.windows.pop()
        assert asked_at - silence.MAX_RESEND_WINDOW <= start <= end == asked_at


def test_silence_schedules_device_data_backfill(now: datetime) -> None:
    row = event(1, received_at=now - timedelta(hours=2))
    key = last().key()
    event(2, received_at=now)
    pull(1, ended_at=now)
    pull(2, status="failure")
    pull(3, days_with_data=0)
    answer(key, now)
    read = BackfillRange.from_key(Lookup.objects.get(kind=BACKFILL).key)
    assert (read.number, read.user_id, read.resource) == (row.pk, uid("patient", 1), "sleep")
    assert now - timedelta(hours=4) < read.start < now - timedelta(hours=2)
    assert read.end > now
    answer(key, now)
    assert Lookup.objects.get(kind=BACKFILL).generation == 2


def test_no_backfill_without_any_event(now: datetime) -> None:
    pull(1, ended_at=now)
    key = silence.Gap(0, None).key()
    assert answer(key, now) == silence.RESEND_INTERVAL
    assert not Lookup.objects.exists()
