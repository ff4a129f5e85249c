"""Charts of device data: samples brought down to a fixed number of points in SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Avg, Count, F, Max, Min, Q, Sum

from backoffice.templatetags.chart import BARS, SPAN, Chart, Point, written
from patients.models import Provider
from patients.wearables.measures import DAILY, Measure, sampled
from patients.wearables.models import Series, Summary
from patients.wearables.spans import Span, day_label

POINTS: Final = """
SELECT bucket, count(value), min(value), max(value), avg(value), sum(value)
FROM (
  SELECT
    width_bucket(
      ((c.day - DATE '1970-01-01') * 86400 + sample.second)::float8, %(edges)s::float8[]
    ) AS bucket,
    CASE c.divisor WHEN 0 THEN sample.wide ELSE sample.scaled::float8 / c.divisor END AS value
  FROM wearables_chunk AS c, unnest(
    c.seconds || c.tail_seconds, c.scaled || c.tail_scaled, c.wide || c.tail_wide
  ) AS sample(second, scaled, wide)
  WHERE c.series_id = %(series)s AND c.day BETWEEN %(first)s AND %(last)s
) AS taken
WHERE bucket BETWEEN 1 AND %(count)s AND value IS NOT NULL
GROUP BY bucket
"""
"""Samples of a series between edges (seconds since 1970, ascending), by the number of the stretch
they lie in, from 1."""

PAIRS: Final = """
SELECT
  width_bucket(
    ((c.day - DATE '1970-01-01') * 86400 + sample.second)::float8, %(edges)s::float8[]
  ) AS bucket,
  count(*),
  min((c.extras -> (sample.second::bigint * 1000000)::text ->> 'diastolic')::float8),
  max(CASE c.divisor WHEN 0 THEN sample.wide ELSE sample.scaled::float8 / c.divisor END),
  avg((c.extras -> (sample.second::bigint * 1000000)::text ->> 'diastolic')::float8),
  avg(CASE c.divisor WHEN 0 THEN sample.wide ELSE sample.scaled::float8 / c.divisor END)
FROM wearables_chunk AS c, unnest(
  c.seconds || c.tail_seconds, c.scaled || c.tail_scaled, c.wide || c.tail_wide
) AS sample(second, scaled, wide)
WHERE c.series_id = %(series)s AND c.day BETWEEN %(first)s AND %(last)s
GROUP BY bucket
"""
"""The same of blood pressures: the second value of a pair is among what is rare."""

NEWEST: Final = """
SELECT series.id, newest.day, newest.value, newest.last_at, newest.extra
FROM wearables_series AS series, LATERAL (
  SELECT
    c.day,
    c.last_at,
    CASE WHEN c.divisor = 0
      THEN coalesce(c.tail_wide[cardinality(c.tail_wide)], c.wide[cardinality(c.wide)])
      ELSE coalesce(c.tail_scaled[cardinality(c.tail_scaled)], c.scaled[cardinality(c.scaled)])
        ::float8 / c.divisor
    END AS value,
    c.extras -> c.last_at::text AS extra
  FROM wearables_chunk AS c WHERE c.series_id = series.id ORDER BY c.day DESC LIMIT 1
) AS newest
WHERE series.user_id = %s
"""
"""The last sample of each series of a patient."""


@dataclass(frozen=True, slots=True)
class Newest:
    """A series and its last sample, `value` in words."""

    series: Series
    measure: Measure
    source: str
    at: datetime
    value: str


@dataclass(frozen=True, slots=True)
class NewestDay:
    """A daily measure and its last number, `value` in words."""

    measure: Measure
    day: date
    source: str
    value: str


def sample_charts(measure: Measure, series: Sequence[Series], span: Span) -> list[Chart]:
    """One chart for each series of a measure."""
    edges = span.edges(measure.kind)
    names = provider_names(one.provider for one in series)
    return [
        Chart(
            id=f"c{one.pk}",
            title=measure.label + (f", {_kind(one.kind)}" if one.kind else ""),
            unit=one.unit or "",
            kind=measure.kind,
            points=_points(measure, one.pk, span, edges),
            ticks=span.ticks(),
            each=span.each(measure.kind),
            source=source_words(names, one.provider, one.source_type),
            zone=span.zone.key,
        )
        for one in series
    ]


def _kind(kind: str) -> str:
    return kind.rpartition("/")[2].replace("_", " ")


def _points(measure: Measure, series: int, span: Span, edges: list[datetime]) -> list[Point]:
    found = {}
    with connection.cursor() as cursor:
        cursor.execute(PAIRS if measure.kind == SPAN else POINTS, asked(series, edges))
        for bucket, count, *numbers in cursor.fetchall():
            found[bucket] = _point(measure.kind, count, numbers)
    labels = [span.label(edge, measure.kind) for edge in edges[:-1]]
    nothing: tuple[Any, ...] = (None, None, None, 0)
    return [Point(label, *found.get(n, nothing)) for n, label in enumerate(labels, 1)]


def asked(series: int, edges: Sequence[datetime]) -> dict[str, Any]:
    """Parameters of `POINTS` and `PAIRS`."""
    return {
        "edges": [edge.timestamp() for edge in edges],
        "series": series,
        "first": edges[0].astimezone(UTC).date(),
        "last": edges[-1].astimezone(UTC).date(),
        "count": len(edges) - 1,
    }


def _point(kind: str, count: int, numbers: list[float]) -> tuple[Any, ...]:
    low, high, mean, total = numbers
    if kind == BARS:
        return total, None, None, count
    return mean, low, high, count


def daily_charts(measure: Measure, user_id: UUID, span: Span) -> list[Chart]:
    """One chart for each source of a number of the summaries."""
    total = (Sum if measure.kind == BARS else Avg)(F(measure.column))
    rows = (
        Summary.objects.filter(
            _has(measure),
            user_id=user_id,
            calendar_date__range=(span.first, span.last),
            missing_since__isnull=True,
        )
        .order_by()
        .values_list("provider", "source_type", "calendar_date")
        .annotate(Count("pk"), Min(measure.column), Max(measure.column), total)
    )
    by_source: dict[tuple[str, str], dict[date, Point]] = {}
    for provider, source_type, day, count, *numbers in rows:
        low, high, value = (float(number) * measure.factor for number in numbers)
        if measure.kind == BARS:
            point = Point(day_label(day), value, count=count)
        else:
            point = Point(day_label(day), value, low, high, count)
        by_source.setdefault((provider, source_type), {})[day] = point
    names = provider_names(provider for provider, _ in by_source)
    return [
        Chart(
            id=f"d{n}",
            title=measure.label,
            unit=measure.unit,
            kind=measure.kind,
            points=[found.get(day, Point(day_label(day))) for day in span.days()],
            ticks=span.ticks(),
            each="day",
            source=source_words(names, *source),
        )
        for n, (source, found) in enumerate(sorted(by_source.items()))
    ]


# What there is


def newest_samples(user_id: UUID) -> list[Newest]:
    """The series of a patient with their last samples, newest first."""
    series = Series.objects.filter(user_id=user_id).in_bulk()
    names = provider_names(one.provider for one in series.values())
    with connection.cursor() as cursor:
        cursor.execute(NEWEST, [user_id])
        rows = [row for row in cursor.fetchall() if row[0] in series]
    found = [_newest(series[pk], names, *row) for pk, *row in rows]
    return sorted(found, key=lambda one: (one.at, -one.series.pk), reverse=True)


def _newest(
    series: Series, names: Mapping[str, str], day: date, value: float | None, last_at: int,
    extra: Any,
) -> Newest:  # fmt: skip
    more = json.loads(extra) if isinstance(extra, str) else extra or {}
    shown = "" if value is None else written(value)
    if "diastolic" in more:
        shown += f"/{written(more['diastolic'])}"
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=last_at)
    source = source_words(names, series.provider, series.source_type)
    if shown and series.unit:
        shown += f" {more.get('unit', series.unit) or ''}"
    return Newest(series, sampled(series.resource), source, at, shown or str(more.get("value", "")))


def newest_days(user_id: UUID) -> list[NewestDay]:
    """The daily measures that the patient has, with the last number of each."""
    rows = Summary.objects.filter(user_id=user_id, missing_since__isnull=True).order_by()
    last = {
        measure.column_of_all: Max("calendar_date", filter=_has(measure))
        for measure in DAILY.values()
    }
    days = rows.aggregate(**last)
    newest = {
        (row.resource, row.calendar_date): row
        for row in rows.filter(calendar_date__in={day for day in days.values() if day}).defer(
            "record", "content_hash"
        )
    }
    names = provider_names(row.provider for row in newest.values())
    found = []
    for measure in DAILY.values():
        day = days[measure.column_of_all]
        row = newest.get((measure.resource, day))
        if day is None or row is None:
            continue
        number = getattr(row, measure.column)
        value = "" if number is None else measure.words(number)
        source = source_words(names, row.provider, row.source_type)
        found.append(NewestDay(measure, day, source, value))
    return found


def _has(measure: Measure) -> Q:
    return Q(resource=measure.resource) & ~Q(**{measure.column: None})


def provider_names(slugs: Iterable[str]) -> Mapping[str, str]:
    rows = Provider.objects.filter(slug__in=set(slugs))
    return dict(rows.values_list("slug", "name"))


def source_words(names: Mapping[str, str], provider: str, source_type: str) -> str:
    """`Band One, watch`; the slug where the provider is not known."""
    name = names.get(provider, provider) or "source not given"
    return f"{name}, {source_type.replace('_', ' ')}" if source_type != "unknown" else name
