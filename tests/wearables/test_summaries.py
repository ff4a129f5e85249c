"""Summaries: by id the latest received is kept, whatever order it is applied in."""

from __future__ import annotations

import itertools
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from django.db import transaction

from backoffice.service.events import Heard
from backoffice.sync.models import Lookup
from patients.wearables.handlers import (
    handle_backfills,
    handle_samples,
    handle_summaries,
    handle_workout_streams,
)
from patients.wearables.models import Chunk, Summary
from tests.api.rows import uid
from tests.wearables.test_samples import NOON, heard

WHO = uid("patient", 1)
WHEN = NOON.isoformat()


def event(number: int, kind: str, data: dict[str, Any], who: UUID | None = WHO) -> Heard:
    at = NOON + timedelta(seconds=number)
    return Heard(number, f"msg_{number}", kind, at, None, who, None, msgspec.json.encode(data))


def summary(number: int, resource: str, n: int = 1, **values: Any) -> Heard:
    data = {
        "id": str(uid(resource, n)), "user_id": str(WHO), "created_at": WHEN, "updated_at": WHEN,
        "source": {"provider": "band", "type": "watch"}, **values,
    }  # fmt: skip
    return event(number, f"daily.data.{resource}.updated", data)


def activity(number: int, n: int = 1, **values: Any) -> Heard:
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
    said, promoted = KINDS[resource]
    heard_event = summary(1, resource, **said)
    handle_summaries([heard_event])
    kept = Summary.objects.get()
    assert (kept.resource, kept.user_id, kept.provider) == (resource, WHO, "band")
    assert kept.source_type == "watch" and kept.record == heard_event.data.decode()
    for name, value in promoted.items():
        assert getattr(kept, name) == value, name


@pytest.mark.django_db
def test_summary_source_may_use_old_or_new_fields() -> None:
    handle_summaries([activity(1, 1, source={"slug": "band", "name": "Band", "logo": ""})])
    assert Summary.objects.get().provider == "band"


@pytest.mark.django_db
def test_last_received_summary_wins_in_any_order() -> None:
    """Four versions, one of them said twice, in all orders, one at a time and in pairs."""
    events = [activity(1, steps=10), activity(2, steps=20), activity(3, steps=10),
              activity(4, steps=40, n=2)]  # fmt: skip
    for order in itertools.permutations(events):
        for size in (1, 2, 4):
            with transaction.atomic():
                for begin in range(0, 4, size):
                    handle_summaries(sorted(order[begin : begin + size], key=lambda e: e.number))
                kept = dict(Summary.objects.values_list("pk", "steps"))
                assert kept == {uid("activity", 1): 10, uid("activity", 2): 40}
                assert Summary.objects.get(pk=uid("activity", 1)).number == 3
                transaction.set_rollback(True)


@pytest.mark.django_db
def test_random_replays_end_like_the_oracle() -> None:
    chance = Random(5)
    events = [activity(n, chance.randint(1, 3), steps=chance.randint(1, 3)) for n in range(1, 60)]
    latest = {msgspec.json.decode(e.data)["id"]: e for e in events}
    for _ in range(20):
        shuffled = events + chance.sample(events, 20)
        chance.shuffle(shuffled)
        with transaction.atomic():
            for begin in range(0, len(shuffled), 5):
                handle_summaries(sorted(shuffled[begin : begin + 5], key=lambda e: e.number))
            for kept in Summary.objects.all():
                newest = latest[str(kept.pk)]
                assert (kept.number, kept.record) == (newest.number, newest.data.decode())
            transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "bad",
    [
        {"id": "x"},
        {"id": None},
    ],
)
def test_summary_that_does_not_fit_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=" "):
        handle_summaries([event(1, "daily.data.activity.created", bad)])


@pytest.mark.django_db
@pytest.mark.parametrize("odd", [{"steps": 2**63}, {"calendar_date": {"day": 3}}])
def test_a_field_that_does_not_fit_loses_that_field(odd: dict[str, Any]) -> None:
    sent = {"id": str(uid("activity", 1)), "calories_total": 5.0, **odd}
    brought = event(1, "daily.data.activity.created", sent)
    handle_summaries([brought])
    kept = Summary.objects.get()
    assert (kept.user_id, kept.record) == (brought.user_id, brought.data.decode())


@pytest.mark.django_db
def test_event_without_user_is_refused() -> None:
    nobody = event(1, "daily.data.steps.created", {"data": []}, who=None)
    with pytest.raises(ValueError, match="whose data"):
        handle_samples([nobody])


# What is only announced


@pytest.mark.django_db
def test_a_stream_is_announced_and_looked_up() -> None:
    workout = uid("workout", 1)
    told = event(1, "daily.data.workout_stream.created",
                 {"workout_id": str(workout), "user_id": str(WHO), "message": "",
                  "provider_id": "x", "sport": "", "source": {"provider": "band"}})  # fmt: skip
    assert handle_workout_streams([told]) == {"msg_1": "looked up"}
    assert Lookup.objects.get(kind="workout-stream").key == f"{workout}:{WHO}"


@pytest.mark.django_db
def test_a_backfill_is_announced_and_looked_up() -> None:
    """`is_final` is neither needed nor read; the pull's report is asked for as well."""
    data = {"user_id": str(WHO), "start_date": "2026-01-01T00:00:00", "end_date": WHEN,
            "provider": "band"}  # fmt: skip
    told = event(1, "historical.data.heartrate.created", data)
    assert handle_backfills([told]) == {"msg_1": "looked up"}
    assert Lookup.objects.filter(kind="backfill").count() == 1
    with pytest.raises(ValueError, match="range"):
        handle_backfills([event(2, "historical.data.steps.created", {"provider": "band"})])


@pytest.mark.django_db
def test_a_hypnogram_is_ignored() -> None:
    told = heard(1, "hypnogram", [])
    assert handle_samples([told]) == {"msg_1": "ignored"}
    assert handle_backfills([event(2, "historical.data.hypnogram.created", {})]) == {
        "msg_2": "ignored"
    }
    assert not Chunk.objects.exists() and not Lookup.objects.exists()
