"""Lookups of data that events only announce: ranges of finished backfills, workout streams.

The key of a lookup (`backoffice/sync/lookups.py`) has everything that the request needs. A long
range of samples is read page by page, and each page is stored before the next one is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db import DatabaseError, DataError, transaction

from backoffice.mirror.applying import apply_batch
from backoffice.mirror.tables import MirrorRecord
from backoffice.mirror.unreadable_records import key_from_raw, save_unreadable
from backoffice.service import Record, RecordPage, Service
from backoffice.service.payload import Payload, Reader
from backoffice.service.wearables import (
    SUMMARIES,
    SampleGroup,
    SamplePayload,
    SummaryPayload,
    WorkoutStreamPayload,
)
from backoffice.sync.lookups import LookupType, schedule_lookups
from backoffice.sync.models import Lookup
from patients.wearables import sample_writer, summaries
from patients.wearables.arrivals import SampleBatch, SampleSource, rejection_reason

BACKFILL: Final = "backfill"
STREAM: Final = "workout-stream"
STREAMS: Final = "workout_stream"
"""A resource without a range request: streams are read by workout."""


class BackfillRange(msgspec.Struct, frozen=True, array_like=True):
    """The range of a finished backfill, as the key of its lookup.

    `number` is the receipt number of the event. The data counts as received then, so that data from
    later events does not change. `cursor` is where the next page begins.
    """

    number: int
    user_id: UUID
    resource: str
    provider: str
    start: datetime
    end: datetime
    cursor: str | None = None

    def key(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_key(cls, key: str) -> BackfillRange:
        return msgspec.json.decode(key, type=cls)

    def with_cursor(self, cursor: str | None) -> BackfillRange:
        return msgspec.structs.replace(self, cursor=cursor)


@dataclass(frozen=True)
class RangeAnswer:
    """One answer: a page of summaries or of samples, or one profile."""

    range: BackfillRange
    page: RecordPage[Any]


@dataclass(frozen=True)
class SourceSamples:
    """Samples of one source in the answer for a range."""

    range: BackfillRange
    record: Record[SampleGroup]


class _RawSamples(Payload):
    data: list[msgspec.Raw] = msgspec.field(default_factory=list)


_RAW_SAMPLES: Final = Reader(_RawSamples)
_SAMPLE: Final = Reader(SamplePayload)


def _fetch_range(service: Service, key: str) -> RangeAnswer:
    backfill = BackfillRange.from_key(key)
    dates = (backfill.start, backfill.end, backfill.provider)
    if backfill.resource == "profile":
        record = service.wearables.profile(backfill.user_id, backfill.provider)
        return RangeAnswer(backfill, RecordPage([record], [], record.asked_at))
    summary = "workouts" if backfill.resource == STREAMS else backfill.resource
    if summary in SUMMARIES:
        return RangeAnswer(backfill, service.wearables.summaries(summary, backfill.user_id, *dates))
    page = service.wearables.samples(backfill.resource, backfill.user_id, *dates, backfill.cursor)
    return RangeAnswer(backfill, page)


def _store_ranges(answers: Mapping[str, RangeAnswer]) -> dict[str, timedelta | None]:
    records: list[MirrorRecord] = []
    groups: list[SourceSamples] = []
    for key, answer in answers.items():
        backfill = answer.range
        for item in answer.page.unreadable:
            _save_unreadable(backfill, item.path, item.reason, item.raw)
        if backfill.resource == STREAMS:
            schedule_streams((record.data.id, backfill.user_id) for record in answer.page.records)
        elif backfill.resource in SUMMARIES:
            records += [_summary_record(backfill, record) for record in answer.page.records]
        else:
            groups += [SourceSamples(backfill, record) for record in answer.page.records]
            _schedule_next_page(key, backfill, answer.page.next_cursor)
    summaries.store_summaries(records)
    _store_samples(groups)
    return {}


def _store_samples(groups: list[SourceSamples]) -> None:
    """Store the samples of these groups.

    Samples that cannot be stored are recorded as unreadable. The others are still stored.
    """
    try:
        with transaction.atomic():
            sample_writer.store([_arrival(group) for group in groups])
    except (ValueError, DataError) as error:
        if len(groups) > 1:
            for group in groups:
                _store_samples([group])
            return
        (group,) = groups
        samples = group.record.data
        storable = [sample for sample in samples.data if not rejection_reason(sample)]
        if len(storable) == len(samples.data):
            # The text of a database error is not used, because it may quote the measured values.
            reason = "does not fit its table" if isinstance(error, DatabaseError) else str(error)
            _save_unreadable(group.range, "$", reason, group.record.raw)
            return
        _save_rejected(group)
        rest = msgspec.structs.replace(samples, data=storable)
        _store_samples([SourceSamples(group.range, replace(group.record, data=rest))])


def _save_rejected(group: SourceSamples) -> None:
    """Record the samples of the group that cannot be stored, each as it was sent."""
    for raw in map(bytes, _RAW_SAMPLES.value(group.record.raw).data):
        sample = _SAMPLE.read(raw, group.record.asked_at)
        if isinstance(sample, Record) and (reason := rejection_reason(sample.data)):
            _save_unreadable(group.range, "$", reason, raw)


def _save_unreadable(backfill: BackfillRange, path: str, reason: str, raw: bytes) -> None:
    key = f"{backfill.resource}:{backfill.user_id}:{key_from_raw(raw)}"
    save_unreadable("wearables", key, path, reason, raw)


def _schedule_next_page(key: str, backfill: BackfillRange, cursor: str | None) -> None:
    """Schedule the lookup of the next page. Lookups of later pages are deleted once done."""
    if cursor == backfill.cursor:
        cursor = None  # A cursor to its own page would loop forever.
    if cursor is not None:
        schedule_lookups(BACKFILL, [backfill.with_cursor(cursor).key()])
    if backfill.cursor is not None:
        Lookup.objects.filter(kind=BACKFILL, key=key).delete()


def _summary_record(backfill: BackfillRange, record: Record[SummaryPayload]) -> MirrorRecord:
    return summaries.summary_record(
        backfill.resource,
        backfill.user_id,
        record.raw,
        record.data,
        backfill.number,
        record.asked_at,
    )


def _arrival(group: SourceSamples) -> SampleBatch:
    backfill, samples = group.range, group.record.data
    origin = SampleSource.of(samples.source)
    if not origin.provider:
        origin = origin._replace(provider=backfill.provider)
    return SampleBatch(backfill.user_id, backfill.resource, origin, backfill.number, samples.data)


# Workout streams


def schedule_streams(workouts: Iterable[tuple[UUID | None, UUID]]) -> None:
    """Schedule the lookups of workout streams. `workouts`: pairs of workout and user ids."""
    schedule_lookups(STREAM, (f"{workout}:{user}" for workout, user in workouts))


def _fetch_stream(service: Service, key: str) -> Record[WorkoutStreamPayload]:
    return service.wearables.workout_stream(key.partition(":")[0])


def _store_streams(
    answers: Mapping[str, Record[WorkoutStreamPayload]],
) -> dict[str, timedelta | None]:
    records = []
    for key, record in answers.items():
        workout, _, user = key.partition(":")
        data = (UUID(user), record.data)
        records.append(MirrorRecord((UUID(workout),), record.raw, record.asked_at, data))
    apply_batch(summaries.STREAMS, records)
    return {}


LOOKUP_TYPES = (
    LookupType(kind=BACKFILL, fetch=_fetch_range, store=_store_ranges),
    LookupType(kind=STREAM, fetch=_fetch_stream, store=_store_streams),
)
