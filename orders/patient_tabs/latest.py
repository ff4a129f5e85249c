"""The latest value of every marker of a patient, with the value before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.utils import timezone

from backoffice.core.vocabulary.interpretations import NOTHING, RANK
from backoffice.core.vocabulary.measures import line_number
from backoffice.service.written_times import WrittenTime
from orders.results.history import time_taken

MAX_MARKERS: Final = 400
"""Most markers shown."""
MAX_LINES_PER_MARKER: Final = 20
"""Most lines read of one marker, newest orders first. One line is not enough: the sample of an
order may be collected after the sample of a later order.
"""
MAX_LINES: Final = 10_000
"""Most lines read in all, newest orders first."""
NAME_PREFIX: Final = "name:"

# Comparable values have the same marker key (`results.history.marker_key`). Without a code, the key
# is the name.
_LINES_SQL: Final = f"""
    WITH given AS (
        SELECT o.id, o.created_at, line.position, coalesce(
                'loinc:' || nullif(line.loinc_slug, ''),
                'lab:' || coalesce(o.lab_slug, '') || ':' || nullif(line.slug, ''),
                'name:' || lower(line.name)
            ) AS marker
        FROM orders_order AS o JOIN orders_resultmarker AS line ON line.result_id = o.id
        WHERE o.user_id = %s AND NOT line.is_missing
        ORDER BY o.created_at DESC, o.id DESC, line.position DESC LIMIT {MAX_LINES}
    ), newest AS (
        SELECT *, row_number() OVER (
            PARTITION BY marker ORDER BY created_at DESC, id DESC, position DESC
        ) AS place FROM given
    )
    SELECT newest.marker, line.name, line.type, line.text, line.value, line.unit,
        line.interpretation, line.interpretation_received, line.source_interpretation,
        coalesce(nullif(line.side, ''), CASE WHEN line.is_above_max_range THEN 'high'
            WHEN line.is_below_min_range THEN 'low' ELSE '' END),
        line.min_range_value, line.max_range_value, line.reference_range, o.id,
        coalesce(v.identity = 'different', false),
        r.date_collected, line.timestamp, line.timestamp_written, o.created_at
    FROM newest
    JOIN orders_order AS o ON o.id = newest.id
    JOIN orders_result AS r ON r.order_id = newest.id
    JOIN orders_resultmarker AS line
        ON line.result_id = newest.id AND line.position = newest.position
    LEFT JOIN orders_review AS v ON v.order_id = newest.id
    WHERE newest.place <= {MAX_LINES_PER_MARKER}
    ORDER BY o.created_at, o.id, line.position
"""


@dataclass(frozen=True, slots=True)
class LatestValue:
    """A marker with its latest and its previous value. The fields are columns of `ResultMarker`."""

    marker: str
    name: str
    type: str
    text: str
    value: float | None
    unit: str | None
    interpretation: str
    interpretation_received: str | None
    source_interpretation: str
    side: str
    min_range_value: float | None
    max_range_value: float | None
    reference_range: str | None
    order_id: UUID
    names_somebody_else: bool
    """The result contradicts the patient's identity (`results.identity`)."""
    taken_at: WrittenTime
    sort_time: datetime
    """The sort key: see `results.history.time_taken`."""
    previous_text: str | None = None
    previous_unit: str | None = None
    previous_taken_at: WrittenTime | None = None

    @property
    def number(self) -> float | None:
        return line_number(self.type, self.text, self.value)

    @property
    def trend(self) -> str:
        """The key of the trend page; empty for a marker without a code."""
        return "" if self.marker.startswith(NAME_PREFIX) else self.marker


def latest_values(patient_id: UUID) -> list[LatestValue]:
    """Return the latest values, critical first, then abnormal, then by name: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_LINES_SQL, [patient_id])
        rows = cursor.fetchall()
    own_zone = timezone.get_current_timezone()
    by_name: dict[str, list[LatestValue]] = {}
    for row in rows:
        *line, collected, timestamp, written, ordered = row
        taken_at, sort_time = time_taken(collected, timestamp, written, ordered, own_zone)
        columns = [*line, taken_at, sort_time]
        by_name.setdefault(row[0], []).append(LatestValue(*columns))
    latest = [_with_previous(values) for values in by_name.values()]
    latest.sort(
        key=lambda marker: (_rank(marker.interpretation), marker.name.lower(), marker.marker)
    )
    return latest[:MAX_MARKERS]


def _with_previous(values: list[LatestValue]) -> LatestValue:
    *previous, newest = sorted(values, key=lambda value: value.sort_time)[-2:]
    for value in previous:
        newest = replace(
            newest,
            previous_text=value.text,
            previous_unit=value.unit,
            previous_taken_at=value.taken_at,
        )
    return newest


def _rank(interpretation: str) -> int:
    return RANK.get(interpretation, RANK[NOTHING])
