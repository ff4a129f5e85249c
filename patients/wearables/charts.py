"""Charts of device data. SQL reduces samples to a fixed number of points."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.db.models import Count, FloatField, Max, Min, Q, Sum
from django.utils.translation import gettext, gettext_noop, ngettext

from backoffice.pages.charts import BARS, LARGEST, SPAN, Chart, Point, number_text
from backoffice.service.json_text import JsonObject
from patients.models import Provider
from patients.wearables.measures import DAILY, Measure, sample_measure
from patients.wearables.models import Series, Summary
from patients.wearables.spans import Span, day_label

LOCAL_AS_SENT: Final = gettext_noop("local time as sent")

_CHUNKS: Final = """(
  SELECT *, CASE WHEN extras IS NOT NULL THEN (
    SELECT jsonb_object_agg(at, true) FROM jsonb_each(extras) AS extra(at, entry)
    WHERE entry ? 'unit' AND entry ->> 'unit' IS DISTINCT FROM %(unit)s::text
  ) END AS other_unit
  FROM wearables_chunk
  WHERE series_id = %(series)s AND day BETWEEN %(first)s AND %(last)s
  OFFSET 0
) AS c, unnest(
  c.seconds || c.tail_seconds, c.scaled || c.tail_scaled, c.wide || c.tail_wide, c.micros
) AS sample(second, scaled, wide, micro)"""
"""SQL for samples of a series. `other_unit` has the times of samples in another unit than the
series. With OFFSET 0, PostgreSQL computes it once per chunk, not once per sample.
"""

_BUCKET: Final = """width_bucket(
  ((c.day - DATE '1970-01-01') * 86400 + sample.second)::float8, %(edges)s::float8[]
)"""
_AT: Final = "(sample.second::bigint * 1000000 + coalesce(sample.micro, 0))::text"
_HAS_OTHER_UNIT: Final = f"c.other_unit IS NOT NULL AND c.other_unit ? {_AT}"

POINTS: Final = f"""
SELECT bucket, count(value), min(value), max(value), sum(value), count(*) - count(value)
FROM (
  SELECT {_BUCKET} AS bucket, CASE
    WHEN {_HAS_OTHER_UNIT} THEN NULL
    WHEN c.divisor <> 0 THEN sample.scaled::float8 / c.divisor
    WHEN abs(sample.wide) < {LARGEST!r} THEN sample.wide
  END AS value
  FROM {_CHUNKS}
) AS taken
WHERE bucket BETWEEN 1 AND %(count)s
GROUP BY bucket
"""
"""SQL for samples of a series between edges (seconds since 1970, ascending), grouped by interval.

Intervals are counted from 1. The last column counts the samples that are left out. avg() is not
used, because its squares overflow.
"""

PAIRS: Final = f"""
SELECT bucket, count(coalesce(low, high)), min(low), max(high), NULL,
  count(*) - count(coalesce(low, high))
FROM (
  SELECT {_BUCKET} AS bucket,
    CASE
      WHEN {_HAS_OTHER_UNIT} THEN NULL
      ELSE (c.extras -> {_AT} ->> 'diastolic')::float8
    END AS low,
    CASE
      WHEN {_HAS_OTHER_UNIT} THEN NULL
      WHEN c.divisor <> 0 THEN sample.scaled::float8 / c.divisor
      ELSE sample.wide
    END AS high
  FROM {_CHUNKS}
) AS taken
WHERE bucket BETWEEN 1 AND %(count)s
GROUP BY bucket
"""
"""The same for blood pressures. The second value of a pair is in `extras`."""

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
"""SQL for the last sample of each series of a patient."""


_UNCONVERTED: Final = ZoneInfo("UTC")
_Numbers: TypeAlias = tuple[float | None, float | None, float | None, int]


@dataclass(frozen=True, slots=True)
class Newest:
    """A series and its last sample, with `value` as text."""

    series: Series
    measure: Measure
    source: str
    at: datetime
    value: str

    @property
    def floating(self) -> bool:
        """Whether the time is local time marked as UTC."""
        return has_floating_time(self.series.provider)


@dataclass(frozen=True, slots=True)
class NewestDay:
    """A daily measure and its last number, with `value` as text."""

    measure: Measure
    day: date
    source: str
    value: str
    is_filling: bool


def sample_charts(
    measure: Measure,
    series: Sequence[Series],
    span: Span,
    newest: Mapping[int, datetime] = MappingProxyType({}),
) -> list[Chart]:
    """Return a chart for each series of a measure. `newest`: time of the last sample by series."""
    names = provider_names(row.provider for row in series)
    return [_sample_chart(measure, row, span, names, newest.get(row.pk)) for row in series]


def _sample_chart(
    measure: Measure,
    series: Series,
    span: Span,
    names: Mapping[str, str],
    newest: datetime | None,
) -> Chart:
    times = gettext("times in %(zone)s") % {"zone": span.zone.key}
    if has_floating_time(series.provider):
        span, times = Span(span.name, span.last, _UNCONVERTED), gettext(LOCAL_AS_SENT)
    points, left_out = _points(measure, series, span, newest)
    return Chart(
        id=f"c{series.pk}",
        title=gettext(measure.label) + (f", {_kind_label(series.kind)}" if series.kind else ""),
        unit=series.unit or "",
        kind=measure.kind,
        points=points,
        ticks=span.ticks(),
        each=span.each(measure.kind),
        source=source_words(names, series.provider, series.source_type),
        times=times,
        note=_left_out_note(left_out),
    )


def has_floating_time(provider: str) -> bool:
    """Whether the provider sends local time marked as UTC."""
    return provider in settings.FLOATING_TIME_PROVIDERS


def _kind_label(kind: str) -> str:
    return kind.rpartition("/")[2].replace("_", " ")


def _left_out_note(count: int) -> str:
    if not count:
        return ""
    return ngettext(
        "%(count)s sample is not shown: it has a different unit, no unit, or no usable number.",
        "%(count)s samples are not shown: they have a different unit, no unit, or no usable"
        " number.",
        count,
    ) % {"count": f"{count:,}"}


def _points(
    measure: Measure, series: Series, span: Span, newest: datetime | None
) -> tuple[list[Point], int]:
    """Return the points, and the number of samples that are left out.

    A total is incomplete until its source sends a sample of a later interval: sources send updates
    for incomplete buckets (specification, "Timeseries events").
    """
    edges = span.edges(measure.kind)
    by_bucket = {}
    left_out = 0
    with connection.cursor() as cursor:
        cursor.execute(PAIRS if measure.kind == SPAN else POINTS, point_parameters(series, edges))
        for bucket, count, low, high, total, left_out_count in cursor.fetchall():
            left_out += left_out_count
            if count:
                by_bucket[bucket] = _numbers(measure.kind, count, low, high, total)
    labels = [span.label(edge, measure.kind) for edge in edges[:-1]]
    nothing: _Numbers = (None, None, None, 0)
    filling = bisect_right(edges, newest) if newest and measure.kind == BARS else 0
    points = [
        Point(label, *by_bucket.get(n, nothing), is_filling=n == filling)
        for n, label in enumerate(labels, 1)
    ]
    return points, left_out


def point_parameters(
    series: Series, edges: Sequence[datetime]
) -> dict[str, int | str | date | list[float] | None]:
    """Return the parameters of `POINTS` and `PAIRS`."""
    return {
        "edges": [edge.timestamp() for edge in edges],
        "series": series.pk,
        "unit": series.unit,
        "first": edges[0].astimezone(UTC).date(),
        "last": edges[-1].astimezone(UTC).date(),
        "count": len(edges) - 1,
    }


def _numbers(kind: str, count: int, low: float, high: float, total: float) -> _Numbers:
    """Return value, minimum, maximum and count of a point."""
    if kind == BARS:
        return total, None, None, count
    if kind == SPAN:
        return (high if low is None else low), low, high, count
    # Rounding may move a mean out of the range of its values.
    return min(max(total / count, low), high), low, high, count


def daily_charts(measure: Measure, user_id: UUID, span: Span) -> list[Chart]:
    """Return a chart of a summary column for each source, with days in the time zone of `span`."""
    column, drawable = measure.column, None
    if isinstance(Summary._meta.get_field(column), FloatField):
        drawable = Q(**{f"{column}__gt": -LARGEST, f"{column}__lt": LARGEST})
    rows = (
        Summary.objects.filter(
            _has(measure),
            user_id=user_id,
            calendar_date__range=(span.first, span.last),
            missing_since__isnull=True,
        )
        .order_by()
        .values_list("provider", "source_type", "calendar_date")
        .annotate(
            all=Count("pk"),
            drawable=Count("pk", filter=drawable),
            low=Min(column, filter=drawable),
            high=Max(column, filter=drawable),
            total=Sum(column, filter=drawable),
            as_of=Max("as_of", filter=drawable),
        )
    )
    by_source: dict[tuple[str, str], dict[date, Point]] = {}
    left_out: dict[tuple[str, str], int] = {}
    for provider, source_type, day, count, point_count, *sums, as_of in rows:
        source = provider, source_type
        points = by_source.setdefault(source, {})
        left_out[source] = left_out.get(source, 0) + count - point_count
        if point_count:
            low, high, total = (float(number) * measure.factor for number in sums)
            numbers = _numbers(measure.kind, point_count, low, high, total)
            is_filling = _is_filling(measure, day, as_of, span.zone)
            points[day] = Point(day_label(day), *numbers, is_filling=is_filling)
    names = provider_names(provider for provider, _ in by_source)
    return [
        Chart(
            id=f"d{n}",
            title=gettext(measure.label),
            unit=gettext(measure.unit),
            kind=measure.kind,
            points=[source_rows.get(day, Point(day_label(day))) for day in span.days()],
            ticks=span.ticks(),
            each="day",
            source=source_words(names, *source),
            note=_left_out_note(left_out[source]),
        )
        for n, (source, source_rows) in enumerate(sorted(by_source.items()))
    ]


def _is_filling(measure: Measure, day: date, as_of: datetime, zone: ZoneInfo) -> bool:
    """Whether a daily total was read before the day was over.

    Only activity is sent before it is complete. Nights, workouts and meals are over when they are
    sent.
    """
    return (measure.resource, measure.kind) == ("activity", BARS) and is_before_end(
        as_of, day, zone
    )


def is_before_end(moment: datetime, day: date, zone: ZoneInfo) -> bool:
    """Whether a moment is before the end of a day in a time zone."""
    return moment.astimezone(zone).date() <= day


# Newest data


def newest_samples(user_id: UUID) -> list[Newest]:
    """Return the series of a patient with their last samples, newest first."""
    series = Series.objects.filter(user_id=user_id).in_bulk()
    names = provider_names(row.provider for row in series.values())
    with connection.cursor() as cursor:
        cursor.execute(NEWEST, [user_id])
        rows = [row for row in cursor.fetchall() if row[0] in series]
    newest = [_newest(series[pk], names, *row) for pk, *row in rows]
    return sorted(newest, key=lambda sample: (sample.at, -sample.series.pk), reverse=True)


def _newest(
    series: Series,
    names: Mapping[str, str],
    day: date,
    value: float | None,
    last_at: int,
    extra: str | JsonObject | None,
) -> Newest:
    extras: JsonObject = json.loads(extra) if isinstance(extra, str) else extra or {}
    text = "" if value is None else number_text(value)
    if "diastolic" in extras:
        text = f"{text or '–'}/{number_text(extras['diastolic'])}"
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=last_at)
    source = source_words(names, series.provider, series.source_type)
    unit = extras.get("unit", series.unit)
    if text and unit:
        text += f" {unit}"
    return Newest(
        series, sample_measure(series.resource), source, at, text or str(extras.get("value", ""))
    )


def newest_days(user_id: UUID, zone: ZoneInfo) -> list[NewestDay]:
    """Return the daily measures of a patient with their last numbers. Days are in `zone`."""
    rows = Summary.objects.filter(user_id=user_id, missing_since__isnull=True).order_by()
    last = {measure.alias: Max("calendar_date", filter=_has(measure)) for measure in DAILY.values()}
    days = rows.aggregate(**last)
    latest = (
        rows.filter(calendar_date__in={day for day in days.values() if day})
        .order_by("-number")
        .defer("record", "content_hash")
    )
    names = provider_names(row.provider for row in latest)
    newest = []
    for measure in DAILY.values():
        day = days[measure.alias]
        for row in latest if day else ():
            number = getattr(row, measure.column)
            if (row.resource, row.calendar_date) == (measure.resource, day) and number is not None:
                source = source_words(names, row.provider, row.source_type)
                is_filling = _is_filling(measure, day, row.as_of, zone)
                newest.append(NewestDay(measure, day, source, measure.words(number), is_filling))
                break
    return newest


def _has(measure: Measure) -> Q:
    return Q(resource=measure.resource) & ~Q(**{measure.column: None})


def provider_names(slugs: Iterable[str]) -> Mapping[str, str]:
    rows = Provider.objects.filter(slug__in=set(slugs))
    return dict(rows.values_list("slug", "name"))


def source_words(names: Mapping[str, str], provider: str, source_type: str) -> str:
    """Return a text such as `Band One, watch`, with the slug if the provider is unknown."""
    name = names.get(provider, provider) or gettext("unknown source")
    return f"{name}, {source_type.replace('_', ' ')}" if source_type != "unknown" else name
