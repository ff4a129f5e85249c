"""Store summaries and workout streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from django.db import connection

from backoffice.mirror.applying import apply_batch
from backoffice.mirror.tables import ApplyOutcome, MirrorRecord, MirrorTable, RowValues
from backoffice.service.payload import Payload
from backoffice.service.wearables import SummaryPayload, WorkoutStreamPayload
from backoffice.service.wearables.summaries import (
    Activity,
    BodySummary,
    Electrocardiogram,
    Meal,
    MenstrualCycle,
    Profile,
    Sleep,
    SleepCycle,
    Workout,
)
from patients.wearables.models import Summary, WorkoutStream

Promotion: TypeAlias = Callable[[Any], RowValues]
"""Returns the columns of one kind of summary. Each kind has its own payload type."""

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
_ALL_NULL: Final[RowValues] = dict.fromkeys((
    "calendar_date", "starts_at", "ends_at", *_ACTIVITY, *_HEART, *_BODY, *_SLEEP, *_WORKOUT,
    "sport", "sleep_id", "name", "energy", "classification", "heart_rate_mean", "cycle_end",
    "is_predicted", "height",
))  # fmt: skip


def _attributes(payload: Payload, names: Sequence[str]) -> RowValues:
    return {name: getattr(payload, name) for name in names}


def _activity(payload: Activity) -> RowValues:
    heart = _attributes(payload.heart_rate, _HEART) if payload.heart_rate else {}
    return {"calendar_date": payload.calendar_date, **_attributes(payload, _ACTIVITY), **heart}


def _body(payload: BodySummary) -> RowValues:
    return {"calendar_date": payload.calendar_date, **_attributes(payload, _BODY)}


def _sleep(payload: Sleep) -> RowValues:
    return {
        "calendar_date": payload.calendar_date,
        "starts_at": payload.bedtime_start,
        "ends_at": payload.bedtime_stop,
        **_attributes(payload, _SLEEP),
    }


def _workout(payload: Workout) -> RowValues:
    return {
        "calendar_date": payload.calendar_date,
        "starts_at": payload.time_start,
        "ends_at": payload.time_end,
        "sport": payload.sport.slug if payload.sport else None,
        **_attributes(payload, _WORKOUT),
    }


def _meal(payload: Meal) -> RowValues:
    return {
        "calendar_date": payload.calendar_date,
        "starts_at": payload.timestamp,
        "name": payload.name,
        "energy": payload.energy.value if payload.energy else None,
    }


def _session(payload: SleepCycle | Electrocardiogram) -> RowValues:
    return {
        "calendar_date": payload.session_start.date() if payload.session_start else None,
        "starts_at": payload.session_start,
        "ends_at": payload.session_end,
        "time_zone": payload.time_zone,
    }


def _sleep_cycle(payload: SleepCycle) -> RowValues:
    return {**_session(payload), "sleep_id": payload.sleep_id}


def _electrocardiogram(payload: Electrocardiogram) -> RowValues:
    return {**_session(payload), **_attributes(payload, ("classification", "heart_rate_mean"))}


def _menstrual_cycle(payload: MenstrualCycle) -> RowValues:
    return {
        "calendar_date": payload.period_start,
        **_attributes(payload, ("cycle_end", "is_predicted")),
    }


def _profile(payload: Profile) -> RowValues:
    return {"height": payload.height}


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


def _summary(record: MirrorRecord) -> RowValues:
    resource, user_id, payload = record.data
    device = payload.source.device_id or getattr(payload, "source_device_id", None)
    return {
        "user_id": user_id,
        "resource": resource,
        "provider": payload.provider,
        "source_type": payload.source.type_sent
        or getattr(payload, "source_type", None)
        or "unknown",
        "app_id": payload.source.app_id or getattr(payload, "source_app_id", None),
        "device_id": device,
        "number": record.version[0],
        **_ALL_NULL,
        **PROMOTED[resource](payload),
    }


SUMMARIES = MirrorTable(
    model=Summary, key=("id",), promote=_summary, version=("number",),
    vocabularies={
        "resource": "wearable.resource",
        "type": "sleep.type",
        "state": "sleep.state",
        "classification": "electrocardiogram.classification",
    },
)  # fmt: skip


def summary_record(
    resource: str, user_id: UUID, raw: bytes, payload: SummaryPayload, number: int, as_of: datetime
) -> MirrorRecord:
    return MirrorRecord((payload.id,), raw, as_of, (resource, user_id, payload), (number,))


def store_summaries(records: Sequence[MirrorRecord]) -> ApplyOutcome:
    """Store summaries. The version received last wins, in whatever order they are applied."""
    outcome = apply_batch(SUMMARIES, records)
    if outcome.unchanged:
        _update_receipts(records)
    return outcome


def _update_receipts(records: Sequence[MirrorRecord]) -> None:
    """Set the receipt number of versions that were received again to that of their last receipt.

    The mirror does not write unchanged rows. Without this, a version that was received in between
    and is applied later would win.
    """
    latest = {
        record.key[0]: record for record in sorted(records, key=lambda record: record.version)
    }
    rows = Summary.objects.select_for_update().filter(pk__in=list(latest)).order_by("pk")
    unchanged: list[MirrorRecord] = []
    changed: list[MirrorRecord] = []
    for pk, number, stored in rows.values_list("pk", "number", "record"):
        record = latest[pk]
        if number < record.version[0]:
            (unchanged if stored == record.raw.decode() else changed).append(record)
    if changed:  # Other workers wrote these after the comparison. They are locked now.
        apply_batch(SUMMARIES, changed)
    if unchanged:
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE wearables_summary AS summary SET number = new.number, as_of = new.as_of"
                " FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[])"
                " AS new(id, number, as_of) WHERE summary.id = new.id",
                [
                    [record.key[0] for record in unchanged],
                    [record.version[0] for record in unchanged],
                    [record.as_of for record in unchanged],
                ],
            )


# Workout streams

_MEASURED: Final = (
    "time", "heartrate", "cadence", "altitude", "velocity_smooth", "lat", "lng", "distance",
    "power", "resistance", "temperature",
)  # fmt: skip


def _stream(record: MirrorRecord) -> RowValues:
    user_id: UUID
    stream: WorkoutStreamPayload
    user_id, stream = record.data
    return {"user_id": user_id, **_attributes(stream, _MEASURED)}


STREAMS = MirrorTable(model=WorkoutStream, key=("id",), promote=_stream)
