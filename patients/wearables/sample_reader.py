"""Decode chunks into single samples as they were sent."""

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
"""Columns of a chunk that `decode_samples` needs."""


def decode_samples(series: Series, row: chunks.Row) -> Iterator[dict[str, Any]]:
    """Yield each sample of a chunk, in order of time, with the names of the service.

    `source` is the id of a `Source`, and `number` the receipt number of the event.
    """
    day: date = row["day"]
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    columns = dict(row)
    if isinstance(columns["extras"], str):
        columns["extras"] = json.loads(columns["extras"])
    samples = chunks.decoded(columns)
    is_pressure = series.resource == "blood_pressure"
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
        if is_pressure:
            item |= {"value": None, "systolic": value, "diastolic": None}
        if length is not None:
            item |= {"start": timestamp, "end": timestamp + timedelta(seconds=length)}
        yield item | samples.extras.get(at, {})
