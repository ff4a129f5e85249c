"""Samples out of their chunks again, one by one, as they were sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from patients.wearables import chunks
from patients.wearables.models import Series

COLUMNS: Final = (
    "series_id", "day", "block", "number", "divisor", "zone", "length", "source",
    "seconds", "micros", "scaled", "wide", "numbers", "zones", "lengths", "sources",
    "tail_seconds", "tail_scaled", "tail_wide", "tail_numbers", "extras",
)  # fmt: skip
"""What `decode_samples` reads of a chunk."""


def decode_samples(series: Series, row: chunks.Row) -> Iterator[dict[str, Any]]:
    """Each sample of a chunk by time, under the service's names, with its `source` (the id of a
    `Source`) and the `number` of what brought it."""
    day: date = row["day"]
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    held = dict(row)
    if isinstance(held["extras"], str):
        held["extras"] = json.loads(held["extras"])
    samples = chunks.decoded(held)
    pressure = series.resource == "blood_pressure"
    for at, value, number, zone, length, source in zip(*samples.columns(), strict=True):
        timestamp = midnight + timedelta(microseconds=at)
        item: dict[str, Any] = {
            "timestamp": timestamp,
            "timezone_offset": zone,
            "type": series.usual_type,
            "unit": series.unit,
            "value": value,
            "number": number,
            "source": source,
        }
        if pressure:
            item |= {"value": None, "systolic": value, "diastolic": None}
        if length is not None:
            item |= {"start": timestamp, "end": timestamp + timedelta(seconds=length)}
        yield item | samples.extras.get(at, {})
