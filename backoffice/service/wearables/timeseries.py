"""Samples from events and from grouped reads. Interface: wearables, chapter 4.

Each resource has one name here, the one used in events. Two read paths spell it differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import field

from backoffice.service.payload import Payload, Reader, Record, RecordPage, Unreadable
from backoffice.service.wearables.source import SourcePayload

READ_NAMES: Mapping[str, str] = {"weight": "body_weight", "fat": "body_fat"}
"""Resources whose name in the read path differs from the name in their events."""

Offset = Annotated[int, msgspec.Meta(ge=-86400, le=86400)]
"""Seconds east of UTC."""


class SamplePayload(Payload):
    """One sample. The resource determines which of the fields below ``value`` are sent.

    ``value`` is a number, text for notes, and absent for blood pressure. An interval includes its
    ``start`` and excludes its ``end``.
    """

    # Times without a zone are UTC. The properties correct them, which saves a second decoding.
    timestamp: datetime | None = None
    start_sent: datetime | None = field(default=None, name="start")
    end_sent: datetime | None = field(default=None, name="end")
    timezone_offset: Offset | None = None
    type: str | None = None
    unit: str | None = None
    value: Any = None
    systolic: float | None = None
    diastolic: float | None = None
    sensor_location: str | None = None
    intensity: str | None = None
    tags: list[str] | None = None
    delivery_mode: str | None = None
    delivery_form: str | None = None
    bolus_purpose: str | None = None

    @property
    def at(self) -> datetime | None:
        """The time that identifies the sample; for an interval, its start."""
        return _utc(self.start_sent or self.timestamp)

    @property
    def start(self) -> datetime | None:
        return _utc(self.start_sent)

    @property
    def end(self) -> datetime | None:
        return _utc(self.end_sent)

    @property
    def number(self) -> float | None:
        """Return ``value`` when it is a number, else None."""
        value = self.value
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class SampleGroup(Payload):
    """Samples of one source: the ``data`` of a timeseries event, or one group of a read.

    Only some events have ``user_id``.
    """

    source: SourcePayload = field(default_factory=SourcePayload)
    data: list[SamplePayload] = field(default_factory=list)
    user_id: UUID | None = None


class GroupedSamples(Payload):
    """A page of samples, grouped by provider slug and then by source."""

    groups: dict[str, list[msgspec.Raw]] = field(default_factory=dict)
    next_cursor: str | None = None


class _UndecodedSamples(Payload):
    source: SourcePayload = field(default_factory=SourcePayload)
    data: list[msgspec.Raw] = field(default_factory=list)


GROUPED = Reader(GroupedSamples)
SAMPLES = Reader(SampleGroup)
_SPLIT = Reader(_UndecodedSamples)
_SAMPLE = Reader(SamplePayload)


def grouped_page(answer: Record[GroupedSamples]) -> RecordPage[SampleGroup]:
    """Return the groups of an answer.

    A sample that cannot be read does not make its group or the page unreadable.
    """
    page: RecordPage[SampleGroup] = RecordPage(
        [], [], answer.asked_at, next_cursor=answer.data.next_cursor or None
    )
    for slug, groups in answer.data.groups.items():
        for group in groups:
            read, unreadable = _group(bytes(group), answer.asked_at)
            page.unreadable.extend(unreadable)
            if read is not None:
                read.data.source.provider_sent = read.data.source.provider or slug
                page.records.append(read)
    page.unreadable.extend(
        Unreadable(answer.raw, part.path, part.reason, answer.asked_at) for part in answer.dropped
    )
    return page


def _group(raw: bytes, asked_at: datetime) -> tuple[Record[SampleGroup] | None, list[Unreadable]]:
    """Read one group; read sample by sample when it cannot be read as a whole."""
    whole = SAMPLES.read(raw, asked_at)
    if isinstance(whole, Record) and not whole.dropped:
        return whole, []
    split = _SPLIT.read(raw, asked_at)
    if not isinstance(split, Record):
        return None, [split]
    samples, unreadable = _SAMPLE.page(split.data.data, asked_at)
    for sample in samples:
        if sample.dropped and sample.data.at is None:  # Invalid without a time.
            lost = sample.dropped[0]
            unreadable.append(Unreadable(sample.raw, lost.path, lost.reason, asked_at))
    usable = [sample.data for sample in samples if not sample.dropped or sample.data.at is not None]
    group = SampleGroup(split.data.source, usable)
    return replace(split, data=group), unreadable  # type: ignore[arg-type, return-value]


def _utc(sent: datetime | None) -> datetime | None:
    return sent if sent is None or sent.tzinfo is not None else sent.replace(tzinfo=UTC)
