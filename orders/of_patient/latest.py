"""The latest of everything that was ever measured in a patient's blood, with the value before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from backoffice.vocabulary.interpretations import RANK_SQL
from backoffice.vocabulary.measures import line_number

MOST: Final = 400
"""Markers that are shown."""
NAMED: Final = "name:"

# A marker is what may be compared (`reviewing.history.key_of`); one without any code is its name.
_LATEST: Final = f"""
    WITH latest AS (
        SELECT DISTINCT ON (marker) marker, name, type, text, value, unit, interpretation,
            interpretation_received, source_interpretation,
            coalesce(nullif(side, ''), CASE WHEN is_above_max_range THEN 'high'
                WHEN is_below_min_range THEN 'low' ELSE '' END), min_range_value, max_range_value,
            reference_range, order_id, at,
            lead(text) OVER earlier, lead(unit) OVER earlier, lead(at) OVER earlier
        FROM (
            SELECT coalesce(
                    'loinc:' || nullif(line.loinc_slug, ''),
                    'lab:' || coalesce(o.lab_slug, '') || ':' || nullif(line.slug, ''),
                    'name:' || lower(line.name)
                ) AS marker,
                line.*, o.id AS order_id, coalesce(line.timestamp, o.created_at) AS at
            FROM orders_order AS o JOIN orders_resultmarker AS line ON line.result_id = o.id
            WHERE o.user_id = %s AND NOT line.is_missing
        ) AS measured
        WINDOW earlier AS (PARTITION BY marker ORDER BY at DESC, order_id)
        ORDER BY marker, at DESC, order_id
    )
    SELECT * FROM latest
    ORDER BY {RANK_SQL.format("interpretation")}, lower(name), marker
    LIMIT %s
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
    at: datetime
    before: str | None
    before_unit: str | None
    before_at: datetime | None

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
        cursor.execute(_LATEST, [patient_id, MOST])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return [Latest(*row) for row in rows]
