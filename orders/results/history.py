"""The values of markers of one patient over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final, NamedTuple
from uuid import UUID

from django.utils import timezone

from backoffice.core import prepared_queries
from backoffice.core.vocabulary.measures import line_number, same_unit
from backoffice.service.written_times import WrittenTime, read_written_time
from orders.models import Order

MAX_VALUES: Final = 3_000
"""Most values read, newest first: thirty years of a large yearly panel."""


@dataclass(frozen=True, slots=True)
class MarkerValue:
    """One value of a marker.

    Comparable values have the same `key`: the LOINC code, or the code of one lab. `at` is the time
    as the laboratory wrote it, `sort_time` the local time to sort by (see `time_taken`).
    """

    key: str
    order_id: UUID
    at: WrittenTime
    sort_time: datetime
    text: str
    number: float | None
    unit: str
    low: float | None
    high: float | None
    range: str
    flag: str
    side: str
    word: str
    source: str
    lab: str
    name: str
    is_coded: bool = False
    names_somebody_else: bool = False
    """The result contradicts the patient's identity (`results.identity`)."""

    @property
    def display_text(self) -> str:
        """The text to show, with coded values such as `NOT_DETECTED` as words."""
        return self.text.replace("_", " ").capitalize() if self.is_coded else self.text

    def is_comparable(self, other: MarkerValue) -> bool:
        """Return whether both are numbers of one unit, so that a line or an arrow may join them."""
        return self.number is not None and other.number is not None and self.has_unit(other.unit)

    def has_unit(self, unit: str) -> bool:
        """Return whether the value has this unit, in any spelling."""
        return same_unit(self.unit, unit)


def marker_key(loinc_slug: str | None, slug: str, lab_slug: str | None) -> str:
    """Return `loinc:…`, comparable across labs, or `lab:<lab>:<slug>`; empty without any code."""
    if loinc_slug:
        return f"loinc:{loinc_slug}"
    return f"lab:{lab_slug or ''}:{slug}" if slug else ""


class _ValueRow(NamedTuple):
    """The columns of `_VALUES_SQL`."""

    order_id: UUID
    loinc_slug: str | None
    slug: str
    lab_slug: str | None
    collected: str | None
    timestamp: datetime | None
    timestamp_written: str | None
    ordered: datetime
    text: str
    type: str
    value: float | None
    unit: str | None
    low: float | None
    high: float | None
    range: str | None
    flag: str
    side: str
    word: str | None
    source: str
    name: str
    names_somebody_else: bool


_VALUES_SQL: Final = """
SELECT o.id, m.loinc_slug, m.slug, o.lab_slug, r.date_collected, m.timestamp, m.timestamp_written,
 o.created_at,
 m.text, m.type, m.value, m.unit, m.min_range_value, m.max_range_value, m.reference_range,
 m.interpretation, coalesce(nullif(m.side, ''), CASE WHEN m.is_above_max_range THEN 'high'
  WHEN m.is_below_min_range THEN 'low' ELSE '' END), m.interpretation_received,
 m.source_interpretation, m.name, coalesce(v.identity = 'different', false)
FROM orders_order o
JOIN orders_result r ON r.order_id = o.id
JOIN orders_resultmarker m ON m.result_id = o.id
LEFT JOIN orders_review v ON v.order_id = o.id
WHERE o.user_id = %s AND NOT m.is_missing
 AND (m.loinc_slug = ANY(%s) OR m.loinc_slug IS NULL AND m.slug = ANY(%s))
ORDER BY o.created_at DESC LIMIT %s
"""


def marker_values(patient_id: UUID, key: str) -> list[MarkerValue]:
    """Return the values for a marker key, or for a slug alone.

    A slug is first taken as a LOINC code, then as a lab's code.
    """
    keys = [key]
    if not key.startswith(("loinc:", "lab:")):
        labs = Order.objects.filter(user=patient_id).values_list("lab_slug", flat=True).distinct()
        keys = [f"loinc:{key}", *(f"lab:{lab or ''}:{key}" for lab in labs)]
    values = values_by_marker(patient_id, keys)
    return next((values[key] for key in keys if key in values), [])


def values_by_marker(patient: UUID | None, keys: Iterable[str]) -> dict[str, list[MarkerValue]]:
    """Return all values of these markers of a patient by key, oldest first: one query."""
    marker_keys = set(keys) - {""}
    if patient is None or not marker_keys:
        return {}
    slugs = [key.removeprefix("loinc:") for key in marker_keys if key.startswith("loinc:")]
    lab_slugs = [key.split(":", 2)[2] for key in marker_keys if key.startswith("lab:")]
    with prepared_queries.cursor() as cursor:
        cursor.execute(_VALUES_SQL, [patient, slugs, lab_slugs, MAX_VALUES])
        rows = [_ValueRow(*row) for row in cursor.fetchall()]
    by_marker: dict[str, list[MarkerValue]] = {}
    own_zone = timezone.get_current_timezone()
    # Rows come newest order first. In reverse, values of one day have the sequence of their orders.
    for row in reversed(rows):
        key = marker_key(row.loinc_slug, row.slug, row.lab_slug)
        if key in marker_keys:
            by_marker.setdefault(key, []).append(_value(key, row, own_zone))
    for values in by_marker.values():
        values.sort(key=lambda value: value.sort_time)
    return by_marker


def time_taken(
    collected: str | None,
    timestamp: datetime | None,
    written: str | None,
    ordered: datetime,
    own_zone: tzinfo,
) -> tuple[WrittenTime, datetime]:
    """Return when a value was taken, and the local time to sort it by.

    The time is the collection date as the laboratory wrote it, else the time of the line (an
    instant, or as written), else the time of the order. The page shows an instant as a day in the
    staff member's zone `own_zone`, so that day also sorts it. A local date is the same day in every
    zone.
    """
    of_line = WrittenTime.from_instant(timestamp) if timestamp else read_written_time(written)
    times = (read_written_time(collected), of_line, WrittenTime.from_instant(ordered))
    taken = next(time for time in times if time.text.strip())
    sort_time = next(key for time in times if (key := time.sort_key(own_zone)) is not None)
    return taken, sort_time


def _value(key: str, row: _ValueRow, own_zone: tzinfo) -> MarkerValue:
    at, sort_time = time_taken(
        row.collected, row.timestamp, row.timestamp_written, row.ordered, own_zone
    )
    return MarkerValue(
        key=key,
        order_id=row.order_id,
        at=at,
        sort_time=sort_time,
        text=row.text,
        number=line_number(row.type, row.text, row.value),
        unit=row.unit or "",
        low=row.low,
        high=row.high,
        range=row.range or "",
        flag=row.flag,
        side=row.side,
        word=row.word or "",
        source=row.source,
        lab=row.lab_slug or "",
        name=row.name,
        is_coded=row.type == "coded_value",
        names_somebody_else=row.names_somebody_else,
    )
