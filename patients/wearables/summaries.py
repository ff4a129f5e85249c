"""Summaries and workout streams into their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection

from backoffice import mirror
from backoffice.mirror import MirrorRecord
from backoffice.service.wearables import Summary as SummaryPayload
from backoffice.service.wearables import WorkoutStream as StreamPayload
from patients.wearables.models import Summary, WorkoutStream

Promotion = Callable[[Any], mirror.RowValues]

_ACTIVITY: Final = (
    "steps", "calories_total", "calories_active", "distance", "low", "medium", "high",
    "floors_climbed", "time_zone", "timezone_offset",
)  # fmt: skip
_HEART: Final = ("avg_bpm", "min_bpm", "max_bpm", "resting_bpm")
_BODY: Final = (
    "weight", "fat", "muscle_mass_percentage", "water_percentage", "body_mass_index",
    "waist_circumference_centimeter",
)  # fmt: skip
_SLEEP: Final = (
    "type", "state", "timezone_offset", "duration", "total", "awake", "light", "rem", "deep",
    "score", "hr_lowest", "hr_average", "hr_resting", "efficiency", "average_hrv",
    "respiratory_rate", "skin_temperature",
)  # fmt: skip
_WORKOUT: Final = (
    "title", "timezone_offset", "average_hr", "max_hr", "distance", "calories", "moving_time",
    "steps",
)  # fmt: skip
_NOTHING: Final[mirror.RowValues] = dict.fromkeys((
    "calendar_date", "starts_at", "ends_at", *_ACTIVITY, *_HEART, *_BODY, *_SLEEP, *_WORKOUT,
    "sport", "sleep_id", "name", "energy", "classification", "heart_rate_mean", "cycle_end",
    "is_predicted", "height",
))  # fmt: skip


def _named(said: Any, names: Sequence[str]) -> mirror.RowValues:
    return {name: getattr(said, name) for name in names}


def _activity(said: Any) -> mirror.RowValues:
    heart = _named(said.heart_rate, _HEART) if said.heart_rate else {}
    return {"calendar_date": said.calendar_date, **_named(said, _ACTIVITY), **heart}


def _body(said: Any) -> mirror.RowValues:
    return {"calendar_date": said.calendar_date, **_named(said, _BODY)}


def _sleep(said: Any) -> mirror.RowValues:
    return {
        "calendar_date": said.calendar_date,
        "starts_at": said.bedtime_start,
        "ends_at": said.bedtime_stop,
        **_named(said, _SLEEP),
    }


def _workout(said: Any) -> mirror.RowValues:
    return {
        "calendar_date": said.calendar_date,
        "starts_at": said.time_start,
        "ends_at": said.time_end,
        "sport": said.sport.slug if said.sport else None,
        **_named(said, _WORKOUT),
    }


def _meal(said: Any) -> mirror.RowValues:
    return {
        "calendar_date": said.calendar_date,
        "starts_at": said.timestamp,
        "name": said.name,
        "energy": said.energy.value if said.energy else None,
    }


def _session(said: Any) -> mirror.RowValues:
    return {
        "calendar_date": said.session_start.date() if said.session_start else None,
        "starts_at": said.session_start,
        "ends_at": said.session_end,
        "time_zone": said.time_zone,
    }


def _sleep_cycle(said: Any) -> mirror.RowValues:
    return {**_session(said), "sleep_id": said.sleep_id}


def _electrocardiogram(said: Any) -> mirror.RowValues:
    return {**_session(said), **_named(said, ("classification", "heart_rate_mean"))}


def _menstrual_cycle(said: Any) -> mirror.RowValues:
    return {
        "calendar_date": said.period_start,
        **_named(said, ("cycle_end", "is_predicted")),
    }


def _profile(said: Any) -> mirror.RowValues:
    return {"height": said.height}


PROMOTED: Final[Mapping[str, Promotion]] = {
    "activity": _activity,
    "body": _body,
    "electrocardiogram": _electrocardiogram,
    "meal": _meal,
    "menstrual_cycle": _menstrual_cycle,
    "profile": _profile,
    "sleep": _sleep,
    "sleep_cycle": _sleep_cycle,
    "workouts": _workout,
}


def _summary(record: MirrorRecord) -> mirror.RowValues:
    resource, user_id, said = record.data
    device = said.source.device_id or getattr(said, "source_device_id", None)
    return {
        "user_id": user_id,
        "resource": resource,
        "provider": said.provider,
        "source_type": said.source.type_sent or getattr(said, "source_type", None) or "unknown",
        "app_id": said.source.app_id or getattr(said, "source_app_id", None),
        "device_id": device,
        "number": record.version[0],
        **_NOTHING,
        **PROMOTED[resource](said),
    }


SUMMARIES = mirror.MirrorTable(
    model=Summary, key=("id",), promote=_summary, version=("number",),
    vocabularies={
        "resource": "wearable.resource",
        "type": "sleep.type",
        "state": "sleep.state",
        "classification": "electrocardiogram.classification",
    },
)  # fmt: skip


def summary_record(
    resource: str, user_id: UUID, raw: bytes, said: SummaryPayload, number: int, as_of: Any
) -> MirrorRecord:
    return MirrorRecord((said.id,), raw, as_of, (resource, user_id, said), (number,))


def store_summaries(records: Sequence[MirrorRecord]) -> mirror.ApplyOutcome:
    """The version received last replaces all others, whatever order they are applied in."""
    outcome = mirror.apply(SUMMARIES, records)
    if outcome.unchanged:
        _received_again(records)
    return outcome


def _received_again(records: Sequence[MirrorRecord]) -> None:
    """A version that was received once more is as late as its last receipt.

    The mirror leaves rows alone that say the same: without this, a version received in between
    and applied afterwards would win.
    """
    latest = {
        mirror_record.key[0]: mirror_record
        for mirror_record in sorted(records, key=lambda mirror_record: mirror_record.version)
    }
    held = Summary.objects.select_for_update().filter(pk__in=list(latest)).order_by("pk")
    same: list[MirrorRecord] = []
    others: list[MirrorRecord] = []
    for pk, number, record in held.values_list("pk", "number", "record"):
        mirror_record = latest[pk]
        if number < mirror_record.version[0]:
            (same if record == mirror_record.raw.decode() else others).append(mirror_record)
    if others:  # Another worker wrote them since we compared; now they are locked.
        mirror.apply(SUMMARIES, others)
    if same:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE wearables_summary AS held SET number = came.number, as_of = came.as_of"
                " FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[])"
                " AS came(id, number, as_of) WHERE held.id = came.id",
                [
                    [mirror_record.key[0] for mirror_record in same],
                    [mirror_record.version[0] for mirror_record in same],
                    [mirror_record.as_of for mirror_record in same],
                ],
            )


# Workout streams

_MEASURED: Final = (
    "time", "heartrate", "cadence", "altitude", "velocity_smooth", "lat", "lng", "distance",
    "power", "resistance", "temperature",
)  # fmt: skip


def _stream(record: MirrorRecord) -> mirror.RowValues:
    user_id, said = record.data
    stream: StreamPayload = said
    return {"user_id": user_id, **_named(stream, _MEASURED)}


STREAMS = mirror.MirrorTable(model=WorkoutStream, key=("id",), promote=_stream)
