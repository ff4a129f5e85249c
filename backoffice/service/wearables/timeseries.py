"""Samples, as events and as grouped reads bring them. Interface: wearables, chapter 4.

Resources have one name each here, the one of the events; only two read paths spell it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import field

from backoffice.service.payload import Payload
from backoffice.service.wearables.source import Source

READ_NAMES: Mapping[str, str] = {"weight": "body_weight", "fat": "body_fat"}
"""Resources whose read path has another name than their events."""

Offset = Annotated[int, msgspec.Meta(ge=-86400, le=86400)]
"""Seconds east of UTC."""


class Sample(Payload):
    """One sample. Which of the fields below ``value`` come depends on the resource.

    ``value`` is a number; text for notes; absent for blood pressure. An interval runs from
    ``start`` up to, but not including, ``end``.
    """

    # Without a zone these are UTC: put right on reading, so that it costs no second decoding.
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
        """The moment that identifies the sample; the start of an interval."""
        return _utc(self.start_sent or self.timestamp)

    @property
    def start(self) -> datetime | None:
        return _utc(self.start_sent)

    @property
    def end(self) -> datetime | None:
        return _utc(self.end_sent)

    @property
    def number(self) -> float | None:
        """``value`` where it is a number."""
        value = self.value
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


class Samples(Payload):
    """Samples of one source: the ``data`` of a timeseries event, or one group of a read.
    ``source_id`` and ``user_id`` come with some events only."""

    source: Source = field(default_factory=Source)
    data: list[Sample] = field(default_factory=list)
    source_id: Any = None
    user_id: UUID | None = None


def _utc(sent: datetime | None) -> datetime | None:
    return sent if sent is None or sent.tzinfo is not None else sent.replace(tzinfo=UTC)
