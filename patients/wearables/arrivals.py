"""Batches of received samples, from an event or a read, split by series and day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from django.conf import settings

from backoffice.service.wearables import SamplePayload, SourcePayload
from patients.wearables import chunks

SeriesKey: TypeAlias = tuple[UUID, str, str, str, str]
"""User, resource, provider, source type, kind of reading."""

RARE: Final[dict[str, tuple[str, ...]]] = {
    "blood_pressure": ("diastolic",),
    "body_temperature": ("sensor_location",),
    "body_temperature_delta": ("sensor_location",),
    "insulin_injection": ("delivery_mode", "delivery_form", "bolus_purpose"),
    "note": ("tags",),
    "workout_duration": ("intensity",),
}
"""Fields that samples of a resource may have in addition to the value."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = (datetime(2000, 1, 1, tzinfo=UTC) - _EPOCH).days
_MAX_DAYS_AHEAD: Final = 2
"""Days after today that are accepted, for floating local times and wrong clocks. A time outside of
these bounds is an error and would need its own partition.
"""
NO_TIME: Final = "a sample has no time"
OUT_OF_RANGE: Final = "a sample lies before 2000 or more than two days ahead"
_SECOND: Final = timedelta(seconds=1)
_MAX_LENGTH: Final = 2**31


class SampleSource(NamedTuple):
    """A source as it is stored. Missing values are empty texts."""

    provider: str
    type: str
    app_id: str = ""
    device_id: str = ""
    sport: str = ""
    workout_id: str = ""

    @classmethod
    def of(cls, source: SourcePayload) -> SampleSource:
        device, workout = source.device_id, source.workout_id
        return cls(
            source.provider,
            source.type,
            source.app_id or "",
            str(device) if device else "",
            source.sport or "",
            str(workout) if workout else "",
        )


class SeriesDefaults(NamedTuple):
    """A series: its id (0 before it has one) and the values that most of its samples have."""

    id: int
    unit: str | None
    type: str | None
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """Samples of one user, resource and source that were received together.

    `number` is the receipt number of the event. Methods raise ValueError for a sample without a
    time or with an impossible one.
    """

    user_id: UUID
    resource: str
    origin: SampleSource
    number: int
    data: list[SamplePayload]

    def series_defaults(self) -> Iterator[tuple[SeriesKey, SeriesDefaults]]:
        """Yield the series of the samples, with the unit and type of their first sample."""
        for kind, data in self._by_kind():
            unit = data[0].unit or next((sample.unit for sample in data if sample.unit), None)
            yield self._key(kind), SeriesDefaults(0, unit, data[0].type)

    def samples(
        self, series: Mapping[SeriesKey, SeriesDefaults], source: int
    ) -> Iterator[tuple[SeriesKey, int, chunks.ChunkSamples]]:
        """Yield series, day since 1970 and samples. A day may come more than once."""
        for kind, data in self._by_kind():
            key = self._key(kind)
            for day, samples in self._by_day(data, series[key], source):
                yield key, day, samples

    def _key(self, kind: str) -> SeriesKey:
        return self.user_id, self.resource, self.origin.provider, self.origin.type, kind

    def _by_kind(self) -> Iterable[tuple[str, list[SamplePayload]]]:
        if not self.data:
            return []
        if self.resource not in settings.SAMPLES_KEYED_BY_TYPE:
            return [("", self.data)]
        kinds: dict[str, list[SamplePayload]] = {}
        for sample in self.data:
            kinds.setdefault(sample.type or "", []).append(sample)
        return kinds.items()

    def _by_day(
        self, data: list[SamplePayload], defaults: SeriesDefaults, source: int
    ) -> Iterator[tuple[int, chunks.ChunkSamples]]:
        moments = [sample.start_sent or sample.timestamp for sample in data]
        if None in moments:
            raise ValueError(NO_TIME)
        since = _since_epoch(moments)  # type: ignore[arg-type]
        days = [moment.days for moment in since]
        whole = chunks.ChunkSamples(
            [moment.seconds * chunks.SECOND + moment.microseconds for moment in since],
            [sample.value for sample in data],
            [self.number] * len(data),
            [sample.timezone_offset for sample in data],
            [None] * len(data),
            [source] * len(data),
        )
        first, last = min(days), max(days)
        if first < _FIRST_DAY or last > _last_day():
            raise ValueError(OUT_OF_RANGE)
        more = self._extras(data, whole, defaults)
        if first == last:
            whole.extras = _latest(whole.at, more, 0)
            yield first, chunks.in_order(whole)
            return
        begin = 0
        for day, same in groupby(days):
            end = begin + sum(1 for _ in same)
            part = whole.between(begin, end)
            part.extras = _latest(part.at, more, begin)
            begin = end
            yield day, chunks.in_order(part)

    def _extras(
        self, data: list[SamplePayload], whole: chunks.ChunkSamples, defaults: SeriesDefaults
    ) -> dict[int, chunks.Extra]:
        """Fill the rare columns of `whole`; return values without a column by index in `data`."""
        more: dict[int, chunks.Extra] = {}

        def add(index: int, name: str, value: object) -> None:
            more.setdefault(index, {})[name] = value

        if not {type(value) for value in whole.values} <= {int, float}:
            for i, sample in enumerate(data):
                whole.values[i] = sample.number if sample.value is not None else sample.systolic
                if sample.value is not None and sample.number is None:
                    add(i, "value", sample.value)
        if {sample.unit for sample in data} != {defaults.unit}:
            for i, sample in enumerate(data):
                if sample.unit != defaults.unit:
                    add(i, "unit", sample.unit)
        if {sample.type for sample in data} != {defaults.type}:
            for i, sample in enumerate(data):
                if sample.type != defaults.type:
                    add(i, "type", sample.type)
        for i, sample in enumerate(data):
            if sample.end_sent is not None:
                length = _length(sample)
                whole.lengths[i] = length
                if length is None:
                    add(i, "end", sample.end_sent.isoformat())
        for name in RARE.get(self.resource, ()):
            for i, sample in enumerate(data):
                if (value := getattr(sample, name)) is not None:
                    add(i, name, value)
        return more


def rejection_reason(sample: SamplePayload) -> str:
    """Return why the sample cannot be stored; empty if it can."""
    if (at := sample.at) is None:
        return NO_TIME
    if not _FIRST_DAY <= (at - _EPOCH).days <= _last_day():
        return OUT_OF_RANGE
    if _has_null(msgspec.structs.asdict(sample)):
        return "a text of a sample has a null character"
    try:
        float(sample.number or 0)
    except OverflowError:
        return "a number of a sample is too large"
    return ""


def _last_day() -> int:
    return (datetime.now(UTC) - _EPOCH).days + _MAX_DAYS_AHEAD


def _has_null(value: object) -> bool:
    """Whether any text in the value has a null character, which PostgreSQL cannot store."""
    if isinstance(value, str):
        return "\x00" in value
    if isinstance(value, dict):
        return any(map(_has_null, (*value, *value.values())))
    return isinstance(value, list) and any(map(_has_null, value))


def _latest(at: list[int], more: Mapping[int, chunks.Extra], begin: int) -> dict[int, chunks.Extra]:
    """Return the extras by time. Of several samples at one time the last one counts."""
    if not more:
        return {}
    last = {moment: index for index, moment in enumerate(at, begin)}
    return {moment: more[index] for moment, index in last.items() if index in more}


def _since_epoch(moments: list[datetime]) -> list[timedelta]:
    try:
        return [moment - _EPOCH for moment in moments]
    except TypeError:  # A time without a zone is UTC.
        return [m - _EPOCH if m.tzinfo else m.replace(tzinfo=UTC) - _EPOCH for m in moments]


def _length(sample: SamplePayload) -> int | None:
    """Return the whole seconds from start to end, or None if they are not a whole number."""
    start, end = sample.start, sample.end
    if start is None or end is None:
        return None
    seconds, rest = divmod(end - start, _SECOND)
    return seconds if not rest and 0 <= seconds < _MAX_LENGTH else None
