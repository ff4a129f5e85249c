"""The latest of everything that was ever measured in a patient's blood, with the value before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

MOST: Final = 400
"""Markers that are shown."""
RANK: Final = {"critical": 0, "abnormal": 1, "unknown": 2}

_LATEST: Final = """
    SELECT DISTINCT ON (marker) marker, name, type, text, value, unit, interpretation,
        is_above_max_range, is_below_min_range, min_range_value, max_range_value,
        reference_range, order_id, at,
        lead(text) OVER earlier, lead(unit) OVER earlier, lead(at) OVER earlier
    FROM (
        SELECT coalesce(nullif(line.loinc_slug, ''), nullif(line.slug, ''), lower(line.name))
            AS marker, line.*, o.id AS order_id, coalesce(line.timestamp, o.created_at) AS at
        FROM orders_order AS o JOIN orders_resultmarker AS line ON line.result_id = o.id
        WHERE o.user_id = %s AND NOT line.is_missing
    ) AS measured
    WINDOW earlier AS (PARTITION BY marker ORDER BY at DESC, order_id)
    ORDER BY marker, at DESC, order_id
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
    is_above_max_range: bool | None
    is_below_min_range: bool | None
    min_range_value: float | None
    max_range_value: float | None
    reference_range: str | None
    order_id: UUID
    at: datetime
    before: str | None
    before_unit: str | None
    before_at: datetime | None


def latest_of(patient_id: UUID) -> list[Latest]:
    """Critical ones first, then abnormal ones, then by name: one query."""
    with connection.cursor() as cursor:
        cursor.execute(_LATEST, [patient_id, MOST])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    found = [Latest(*row) for row in rows]
    return sorted(found, key=lambda one: (RANK.get(one.interpretation, 3), one.name.lower()))
