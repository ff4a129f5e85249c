"""Summaries: the latest received version of an id is stored, in any order of application."""

from __future__ import annotations

import itertools
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.db import transaction

from backoffice.service.events import ReceivedEvent
from backoffice.sync.models import Lookup
from patients.wearables.handlers import (
    handle_backfills,
    handle_samples,
    handle_summaries,
    handle_workout_streams,
)
from patients.wearables.models import Chunk, Summary
from tests.api.rows import uid
from tests.wearables.test_samples import NOON, samples_event

WHO = uid("patient", 1)
WHEN = NOON.isoformat()


def event(number: int, kind: str, data: dict[str, Any], who: UUID | None = WHO) -> ReceivedEvent:
    at = NOON + timedelta(seconds=number)
    return ReceivedEvent(
        number, f"msg_{number}", kind, at, None, who, None, msgspec.json.encode(data)
    )


def summary(number: int, resource: str, n: int = 1, **values: Any) -> ReceivedEvent:
    data = {
        "id": str(uid(resource, n)), "user_id": str(WHO), "created_at": WHEN, "updated_at": WHEN,
        "source": {"provider": "band", "type": "watch"}, **values,
    }  # fmt: skip
    return event(number, f"daily.data.{resource}.updated", data)


def activity(number: int, n: int = 1, **values: Any) -> ReceivedEvent:
    return summary(number, "activity", n, calendar_date="2026-03-29", date=WHEN, **values)


KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "activity": (
        {"calendar_date": "2026-03-29", "steps": 7, "heart_rate": {"avg_bpm": 61.5}},
        {"steps": 7, "avg_bpm": 61.5, "resting_bpm": None},
    ),
    "body": ({"calendar_date": "2026-03-29", "weight": 70.5}, {"weight": 70.5}),
    "electrocardiogram": (
        {"session_start": WHEN, "session_end": WHEN, "voltage_sample_count": 3,
         "classification": "sinus_rhythm", "source_provider": "band", "source_type": "watch"},
        {"classification": "sinus_rhythm", "starts_at": NOON},
    ),
    "meal": (
        {"timestamp": WHEN, "calendar_date": "2026-03-29", "name": "Lunch",
         "energy": {"unit": "kcal", "value": 640.5}, "macros": None, "micros": None},
        {"name": "Lunch", "energy": 640.5},
    ),
    "menstrual_cycle": (
        {"period_start": "2026-03-29", "is_predicted": True, "source_provider": "band",
         "source_type": "watch"},
        {"is_predicted": True},
    ),
    "profile": ({"height": 183}, {"height": 183, "calendar_date": None}),
    "sleep": (
        {"calendar_date": "2026-03-29", "bedtime_start": WHEN, "bedtime_stop": WHEN,
         "type": "long_sleep", "duration": 1, "total": 2, "awake": 3, "light": 4, "rem": 5,
         "deep": 6},
        {"type": "long_sleep", "total": 2, "deep": 6, "starts_at": NOON},
    ),
    "sleep_cycle": (
        {"sleep_id": str(uid("sleep", 1)), "session_start": WHEN, "session_end": WHEN,
         "stage_type": [1], "source_provider": "band", "source_type": "watch"},
        {"sleep_id": uid("sleep", 1), "starts_at": NOON},
    ),
    "workouts": (
        {"calendar_date": "2026-03-29", "time_start": WHEN, "time_end": WHEN, "provider_id": "x",
         "sport": {"id": 3, "name": "Running", "slug": "running"}, "distance": 5000.5},
        {"sport": "running", "distance": 5000.5},
    ),
}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("resource", KINDS)
def test_every_kind_of_summary_is_stored(resource: str) -> None:
    values, promoted = KINDS[resource]
    received = summary(1, resource, **values)
    handle_summaries([received])
    stored = Summary.objects.get()
    assert (stored.resource, stored.user_id, stored.provider) == (resource, WHO, "band")
    assert stored.source_type == "watch" and stored.record == received.data.decode()
    for name, value in promoted.items():
        assert getattr(stored, name) == value, name


@pytest.mark.django_db
def test_summary_source_may_use_old_or_new_fields() -> None:
    handle_summaries([activity(1, 1, source={"slug": "band", "name": "Band", "logo": ""})])
    assert Summary.objects.get().provider == "band"


@pytest.mark.django_db
def test_last_received_summary_wins_in_any_order() -> None:
    """Four events in all orders, in batches of one, two and four. Two have equal values."""
    events = [activity(1, steps=10), activity(2, steps=20), activity(3, steps=10),
              activity(4, steps=40, n=2)]  # fmt: skip
    for order in itertools.permutations(events):
        for size in (1, 2, 4):
            with transaction.atomic():
                for begin in range(0, 4, size):
                    handle_summaries(sorted(order[begin : begin + size], key=lambda e: e.number))
                stored = dict(Summary.objects.values_list("pk", "steps"))
                assert stored == {uid("activity", 1): 10, uid("activity", 2): 40}
                assert Summary.objects.get(pk=uid("activity", 1)).number == 3
                transaction.set_rollback(True)


@pytest.mark.django_db
def test_random_replays_give_latest_summaries() -> None:
    rng = Random(5)
    events = [activity(n, rng.randint(1, 3), steps=rng.randint(1, 3)) for n in range(1, 60)]
    latest = {msgspec.json.decode(e.data)["id"]: e for e in events}
    for _ in range(20):
        shuffled = events + rng.sample(events, 20)
        rng.shuffle(shuffled)
        with transaction.atomic():
            for begin in range(0, len(shuffled), 5):
                handle_summaries(sorted(shuffled[begin : begin + 5], key=lambda e: e.number))
            for stored in Summary.objects.all():
                newest = latest[str(stored.pk)]
                assert (stored.number, stored.record) == (newest.number, newest.data.decode())
            transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "bad",
    [
        {"id": "x"},
        {"id": None},
    ],
)
def test_summary_with_invalid_id_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=" "):
        handle_summaries([event(1, "daily.data.activity.created", bad)])


@pytest.mark.django_db
@pytest.mark.parametrize("invalid", [{"steps": 2**63}, {"calendar_date": {"day": 3}}])
def test_summary_with_invalid_field_is_stored(invalid: dict[str, Any]) -> None:
    sent = {"id": str(uid("activity", 1)), "calories_total": 5.0, **invalid}
    received = event(1, "daily.data.activity.created", sent)
    handle_summaries([received])
    stored = Summary.objects.get()
    assert (stored.user_id, stored.record) == (received.user_id, received.data.decode())


@pytest.mark.django_db
def test_event_without_user_is_refused() -> None:
    anonymous = event(1, "daily.data.steps.created", {"data": []}, who=None)
    with pytest.raises(ValueError, match="whose data"):
        handle_samples([anonymous])


# Announced data


@pytest.mark.django_db
def test_stream_event_schedules_lookup() -> None:
    workout = uid("workout", 1)
    announcement = event(1, "daily.data.workout_stream.created",
                 {"workout_id": str(workout), "user_id": str(WHO), "message": "",
                  "provider_id": "x", "sport": "", "source": {"provider": "band"}})  # fmt: skip
    assert handle_workout_streams([announcement]) == {"msg_1": "looked up"}
    assert Lookup.objects.get(kind="workout-stream").key == f"{workout}:{WHO}"


@pytest.mark.django_db
def test_backfill_event_schedules_lookup() -> None:
    """`is_final` is neither required nor read. The report of the pull is looked up as well."""
    data = {"user_id": str(WHO), "start_date": "2026-01-01T00:00:00", "end_date": WHEN,
            "provider": "band"}  # fmt: skip
    announcement = event(1, "historical.data.heartrate.created", data)
    assert handle_backfills([announcement]) == {"msg_1": "looked up"}
    assert Lookup.objects.filter(kind="backfill").count() == 1
    with pytest.raises(ValueError, match="range"):
        handle_backfills([event(2, "historical.data.steps.created", {"provider": "band"})])


@pytest.mark.django_db
def test_hypnogram_events_are_ignored() -> None:
    announcement = samples_event(1, "hypnogram", [])
    assert handle_samples([announcement]) == {"msg_1": "ignored"}
    assert handle_backfills([event(2, "historical.data.hypnogram.created", {})]) == {
        "msg_2": "ignored"
    }
    assert not Chunk.objects.exists() and not Lookup.objects.exists()
