"""The latest of everything that was ever measured in a patient's blood, with the value before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.utils import timezone

from backoffice.core.vocabulary.interpretations import NOTHING, RANK
from backoffice.core.vocabulary.measures import line_number
from backoffice.service.written_times import WrittenTime
from orders.results.history import when_taken

MOST: Final = 400
"""Markers that are shown."""
OF_MARKER: Final = 20
"""Lines read of one marker, newest orders first: an order may be collected after a later one."""
LINES: Final = 10_000
"""Lines read at most, whatever their markers, newest orders first."""
NAMED: Final = "name:"

# A marker is what may be compared (`reviewing.history.key_of`); one without any code is its name.
_LINES: Final = f"""
    WITH given AS (
        SELECT o.id, o.created_at, line.position, coalesce(
                'loinc:' || nullif(line.loinc_slug, ''),
                'lab:' || coalesce(o.lab_slug, '') || ':' || nullif(line.slug, ''),
                'name:' || lower(line.name)
            ) AS marker
        FROM orders_order AS o JOIN orders_resultmarker AS line ON line.result_id = o.id
        WHERE o.user_id = %s AND NOT line.is_missing
        ORDER BY o.created_at DESC, o.id DESC, line.position DESC LIMIT {LINES}
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
    WHERE newest.place <= {OF_MARKER}
    ORDER BY o.created_at, o.id, line.position
"""


@dataclass(frozen=True, slots=True)
class Latest:
    """A marker, its latest value, and the one before it. Columns of `ResultMarker`."""

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
    """Its result contradicts the patient (`reviewing.identity`)."""
    at: WrittenTime
    wall: datetime
    """What it is sorted by: see `reviewing.history.when_taken`."""
    before: str | None = None
    before_unit: str | None = None
    before_at: WrittenTime | None = None

    @property
    def number(self) -> float | None:
        return line_number(self.type, self.text, self.value)

    @property
    def trend(self) -> str:
        """The key of its values over time; empty where it has no code to find them by."""
        return "" if self.marker.startswith(NAMED) else self.marker


def latest_of(patient_id: UUID) -> list[Latest]:
    """Critical ones first, then abnormal ones, then by name: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_LINES, [patient_id])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    here = timezone.get_current_timezone()
    found: dict[str, list[Latest]] = {}
    for row in rows:
        *line, collected, stamped, stamp, created = row
        at, wall = when_taken(collected, stamped, stamp, created, here)
        columns = [*line, at, wall]
        found.setdefault(row[0], []).append(Latest(*columns))
    latest = [_newest(values) for values in found.values()]
    latest.sort(key=lambda one: (_rank(one.interpretation), one.name.lower(), one.marker))
    return latest[:MOST]


def _newest(values: list[Latest]) -> Latest:
    *before, newest = sorted(values, key=lambda one: one.wall)[-2:]
    for one in before:
        newest = replace(newest, before=one.text, before_unit=one.unit, before_at=one.at)
    return newest


def _rank(interpretation: str) -> int:
    return RANK.get(interpretation, RANK[NOTHING])
