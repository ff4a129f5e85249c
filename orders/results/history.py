"""All values of the same markers of one patient, by one query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final
from uuid import UUID

from django.utils import timezone

from backoffice.core import prepared_queries
from backoffice.core.vocabulary.measures import line_number, same_unit
from backoffice.service.written_times import WrittenTime, read_written_time

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


def values_by_marker(patient: UUID | None, keys: Iterable[str]) -> dict[str, list[MarkerValue]]:
    """Return all values of these markers of a patient by marker key, oldest first."""
    wanted = set(keys) - {""}
    if patient is None or not wanted:
        return {}
    slugs = [key.removeprefix("loinc:") for key in wanted if key.startswith("loinc:")]
    lab_keys = [key.split(":", 2)[2] for key in wanted if key.startswith("lab:")]
    with prepared_queries.cursor() as cursor:
        cursor.execute(_VALUES_SQL, [patient, slugs, lab_keys, MAX_VALUES])
        rows = cursor.fetchall()
    by_marker: dict[str, list[MarkerValue]] = {}
    own_zone = timezone.get_current_timezone()
    # Rows come newest order first. In reverse, values of one day have the sequence of their orders.
    for row in reversed(rows):
        key = marker_key(row[1], row[2], row[3])
        if key in wanted:
            by_marker.setdefault(key, []).append(_value(key, row, own_zone))
    for values in by_marker.values():
        values.sort(key=lambda value: value.sort_time)
    return by_marker


def time_taken(
    collected: str | None,
    stamped: datetime | None,
    stamp: str | None,
    ordered: datetime,
    own_zone: tzinfo,
) -> tuple[WrittenTime, datetime]:
    """Return when a value was taken, and the local time to sort it by.

    The time is the collection date as the laboratory wrote it, else the time of the line (an
    instant, or as written), else the time of the order. The page shows an instant as a day in the
    staff member's zone `own_zone`, so that day also sorts it. A local date is the same day in every
    zone.
    """
    of_line = WrittenTime.of_instant(stamped) if stamped else read_written_time(stamp)
    of_order = WrittenTime.of_instant(ordered)
    choices = (read_written_time(collected), of_line, of_order)
    choice = next(choice for choice in choices if choice.text.strip())
    sort_time = next(key for choice in choices if (key := choice.sort_key(own_zone)) is not None)
    return choice, sort_time


def _value(key: str, row: Sequence[Any], own_zone: tzinfo) -> MarkerValue:
    (order_id, _, _, lab, collected, stamped, stamp, created, *rest) = row
    (
        text,
        kind,
        number,
        unit,
        low,
        high,
        words,
        flag,
        side,
        word,
        source,
        name,
        names_somebody_else,
    ) = rest
    at, sort_time = time_taken(collected, stamped, stamp, created, own_zone)
    return MarkerValue(
        key=key,
        order_id=order_id,
        at=at,
        sort_time=sort_time,
        text=text,
        number=line_number(kind, text, number),
        unit=unit or "",
        low=low,
        high=high,
        range=words or "",
        flag=flag,
        side=side,
        word=word or "",
        source=source,
        lab=lab or "",
        name=name,
        is_coded=kind == "coded_value",
        names_somebody_else=names_somebody_else,
    )
