"""What an event only announces: the range of a finished backfill, and the stream of a workout.

Each is a look-up (`backoffice/sync/lookups.py`) whose key says all that must be asked. A long
range of samples is read page by page, each page stored before the next is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db import DatabaseError, DataError, transaction

from backoffice import mirror, sync
from backoffice.mirror import MirrorRecord
from backoffice.models import Lookup
from backoffice.service import Page, Record, Service
from backoffice.service.payload import Payload, Reader
from backoffice.service.wearables import SUMMARIES, Sample, Samples, Summary, WorkoutStream
from patients.wearables import sample_writer, summaries
from patients.wearables.arrivals import Arrival, Origin, unfit

BACKFILL: Final = "backfill"
STREAM: Final = "workout-stream"
STREAMS: Final = "workout_stream"
"""The resource of that name has no range of its own: streams are read workout by workout."""


class BackfillRange(msgspec.Struct, frozen=True, array_like=True):
    """The range of a finished backfill, as the key of its look-up.

    `number` is that of the event: what was read counts as received then, so that whatever was
    pushed later stays. `cursor` is where the next page begins.
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
    def of(cls, key: str) -> BackfillRange:
        return msgspec.json.decode(key, type=cls)

    def at(self, cursor: str | None) -> BackfillRange:
        return msgspec.structs.replace(self, cursor=cursor)


@dataclass(frozen=True)
class Read:
    """One answer: a page of summaries or of samples, or one profile."""

    range: BackfillRange
    page: Page[Any]


@dataclass(frozen=True)
class Group:
    """Samples of one source in the answer for a range."""

    range: BackfillRange
    record: Record[Samples]


class _Raw(Payload):
    data: list[msgspec.Raw] = msgspec.field(default_factory=list)


_RAW: Final = Reader(_Raw)
_SAMPLE: Final = Reader(Sample)


def _fetch_range(service: Service, key: str) -> Read:
    wanted = BackfillRange.of(key)
    dates = (wanted.start, wanted.end, wanted.provider)
    if wanted.resource == "profile":
        record = service.wearables.profile(wanted.user_id, wanted.provider)
        return Read(wanted, Page([record], [], record.asked_at))
    summary = "workouts" if wanted.resource == STREAMS else wanted.resource
    if summary in SUMMARIES:
        return Read(wanted, service.wearables.summaries(summary, wanted.user_id, *dates))
    page = service.wearables.samples(wanted.resource, wanted.user_id, *dates, wanted.cursor)
    return Read(wanted, page)


def _store_ranges(answers: Mapping[str, Read]) -> dict[str, timedelta | None]:
    records: list[MirrorRecord] = []
    groups: list[Group] = []
    for key, read in answers.items():
        wanted = read.range
        for item in read.page.unreadable:
            _keep_unread(wanted, item.path, item.reason, item.raw)
        if wanted.resource == STREAMS:
            mark_streams((record.data.id, wanted.user_id) for record in read.page.records)
        elif wanted.resource in SUMMARIES:
            records += [_summary_record(wanted, record) for record in read.page.records]
        else:
            groups += [Group(wanted, record) for record in read.page.records]
            _go_on(key, wanted, read.page.next_cursor)
    summaries.store_summaries(records)
    _store_samples(groups)
    return {}


def _store_samples(groups: list[Group]) -> None:
    """Keep what can be kept of these groups. What cannot is kept unread, and stops nothing."""
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
        fit = [sample for sample in samples.data if not unfit(sample)]
        if len(fit) == len(samples.data):
            # Words of the database could tell what was measured.
            reason = "does not fit its table" if isinstance(error, DatabaseError) else str(error)
            _keep_unread(group.range, "$", reason, group.record.raw)
            return
        _keep_unfit(group)
        rest = msgspec.structs.replace(samples, data=fit)
        _store_samples([Group(group.range, replace(group.record, data=rest))])


def _keep_unfit(group: Group) -> None:
    """The samples of the group that cannot be kept, each as it was sent."""
    for raw in map(bytes, _RAW.value(group.record.raw).data):
        sample = _SAMPLE.read(raw, group.record.asked_at)
        if isinstance(sample, Record) and (reason := unfit(sample.data)):
            _keep_unread(group.range, "$", reason, raw)


def _keep_unread(wanted: BackfillRange, path: str, reason: str, raw: bytes) -> None:
    key = f"{wanted.resource}:{wanted.user_id}:{mirror.key_from_raw(raw)}"
    mirror.save_unreadable("wearables", key, path, reason, raw)


def _go_on(key: str, wanted: BackfillRange, cursor: str | None) -> None:
    """Ask for the next page; the look-up of a page that is not the first leaves no trace."""
    if cursor == wanted.cursor:
        cursor = None  # A cursor that leads to itself would never end.
    if cursor is not None:
        sync.schedule_lookups(BACKFILL, [wanted.at(cursor).key()])
    if wanted.cursor is not None:
        Lookup.objects.filter(kind=BACKFILL, key=key).delete()


def _summary_record(wanted: BackfillRange, record: Record[Summary]) -> MirrorRecord:
    return summaries.summary_record(
        wanted.resource, wanted.user_id, record.raw, record.data, wanted.number, record.asked_at
    )


def _arrival(group: Group) -> Arrival:
    wanted, samples = group.range, group.record.data
    origin = Origin.of(samples.source)
    if not origin.provider:
        origin = origin._replace(provider=wanted.provider)
    return Arrival(wanted.user_id, wanted.resource, origin, wanted.number, samples.data)


# Workout streams


def mark_streams(workouts: Any) -> None:
    """Read the streams of these workouts, given with their users."""
    sync.schedule_lookups(STREAM, (f"{workout}:{user}" for workout, user in workouts))


def _fetch_stream(service: Service, key: str) -> Record[WorkoutStream]:
    return service.wearables.workout_stream(key.partition(":")[0])


def _store_streams(answers: Mapping[str, Record[WorkoutStream]]) -> dict[str, timedelta | None]:
    records = []
    for key, record in answers.items():
        workout, _, user = key.partition(":")
        data = (UUID(user), record.data)
        records.append(MirrorRecord((UUID(workout),), record.raw, record.asked_at, data))
    mirror.apply(summaries.STREAMS, records)
    return {}


LOOKUP_TYPES = (
    sync.LookupType(kind=BACKFILL, fetch=_fetch_range, store=_store_ranges),
    sync.LookupType(kind=STREAM, fetch=_fetch_stream, store=_store_streams),
)
