"""Earlier and later values of the same markers of one person: one query, whatever the report."""

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

MOST: Final = 3_000
"""Values read at most, newest first: thirty years of a big yearly panel."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a marker. `key` is equal for what may be compared: the marker as LOINC calls
    it, or as one lab does. `at` is its time as the laboratory wrote it, `wall` what a clock on
    the wall shows then (see `when_taken`)."""

    key: str
    order_id: UUID
    at: WrittenTime
    wall: datetime
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
    """Its result contradicts the patient (`reviewing.identity`)."""

    @property
    def said(self) -> str:
        """`NOT_DETECTED` as words."""
        return self.text.replace("_", " ").capitalize() if self.is_coded else self.text

    def comparable(self, other: Value) -> bool:
        """Both are numbers of one unit: only then may a line join them, or an arrow compare."""
        return self.number is not None and other.number is not None and self.is_in(other.unit)

    def is_in(self, unit: str) -> bool:
        """Whether its unit is this one, in whatever spelling."""
        return same_unit(self.unit, unit)


def key_of(loinc_slug: str | None, slug: str, lab_slug: str | None) -> str:
    """`loinc:…`, comparable across labs, or `lab:<lab>:<slug>`; empty for a marker without name."""
    if loinc_slug:
        return f"loinc:{loinc_slug}"
    return f"lab:{lab_slug or ''}:{slug}" if slug else ""


_SELECT: Final = """
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


def values_of(patient: UUID | None, keys: Iterable[str]) -> dict[str, list[Value]]:
    """All values of these markers of a person, oldest first, by key."""
    wanted = set(keys) - {""}
    if patient is None or not wanted:
        return {}
    slugs = [key.removeprefix("loinc:") for key in wanted if key.startswith("loinc:")]
    own = [key.split(":", 2)[2] for key in wanted if key.startswith("lab:")]
    with prepared_queries.cursor() as cursor:
        cursor.execute(_SELECT, [patient, slugs, own, MOST])
        rows = cursor.fetchall()
    found: dict[str, list[Value]] = {}
    here = timezone.get_current_timezone()
    # Newest orders first: turned round, values of one day are in the order of their orders.
    for row in reversed(rows):
        key = key_of(row[1], row[2], row[3])
        if key in wanted:
            found.setdefault(key, []).append(_value(key, row, here))
    for values in found.values():
        values.sort(key=lambda value: value.wall)
    return found


def when_taken(
    collected: str | None,
    stamped: datetime | None,
    stamp: str | None,
    ordered: datetime,
    here: tzinfo,
) -> tuple[WrittenTime, datetime]:
    """When a value was taken, and by what it is sorted: as the laboratory wrote it, else the time
    of the line (an instant, or as written), else that of the order.

    Sorted by day: an instant has the day that is shown, that of the staff member's zone `here`;
    what is a local day is that day for everybody.
    """
    of_line = WrittenTime.of_instant(stamped) if stamped else read_written_time(stamp)
    of_order = WrittenTime.of_instant(ordered)
    choices = (read_written_time(collected), of_line, of_order)
    shown = next(one for one in choices if one.text.strip())
    wall = next(found for one in choices if (found := one.sort_key(here)) is not None)
    return shown, wall


def _value(key: str, row: Sequence[Any], here: tzinfo) -> Value:
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
    at, wall = when_taken(collected, stamped, stamp, created, here)
    return Value(
        key=key,
        order_id=order_id,
        at=at,
        wall=wall,
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
