"""The draw-day strip: device data of the days around a draw. Context, not interpretation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Max, Q
from django.utils import timezone

from patients.wearables.charts import POINTS, has_floating_time, is_before_end, point_parameters
from patients.wearables.models import Series, Summary

DAYS_BEFORE: Final = 3
DAYS_AFTER: Final = 1
HOUR: Final = timedelta(hours=1)
MAX_SERIES: Final = 4
"""Most glucose series that are read."""


@dataclass(slots=True)
class StripDay:
    """One day in the time zone of the patient. A value is None if no device sent it."""

    day: date
    draw: bool
    to_come: bool
    sleep: int | None = None
    """In seconds."""
    steps: int | None = None
    is_filling: bool = False
    """Whether the steps were read before the day was over."""
    glucose: list[bool] = field(default_factory=list)
    """For each hour, whether there is a value."""

    @property
    def covered(self) -> int:
        """Return the number of hours with a glucose value."""
        return sum(self.glucose)

    @property
    def hours(self) -> list[tuple[int, bool]]:
        return list(enumerate(self.glucose))


def strip_days(patient_id: UUID, draw: date, zone: ZoneInfo) -> list[StripDay]:
    """Return the days of the strip with sleep, steps and glucose."""
    today = timezone.now().astimezone(zone).date()
    first = draw - timedelta(days=DAYS_BEFORE)
    days = {
        day: StripDay(day, draw=day == draw, to_come=day > today)
        for day in (first + timedelta(days=n) for n in range(DAYS_BEFORE + DAYS_AFTER + 1))
    }
    rows = (
        Summary.objects.filter(
            user_id=patient_id,
            resource__in=("sleep", "activity"),
            calendar_date__in=list(days),
            missing_since=None,
        )
        .order_by()
        .values_list("calendar_date")
        # Of several devices, the largest value counts: they measured the same night and the same
        # steps.
        .annotate(
            read_at=Max("as_of", filter=Q(steps__isnull=False)),
            sleep=Max("total"),
            steps=Max("steps"),
        )
    )
    for date_of_data, read_at, sleep, steps in rows:
        day = days[date_of_data]
        day.sleep, day.steps = sleep, steps
        day.is_filling = read_at is not None and is_before_end(read_at, date_of_data, zone)
    _add_glucose_hours(days, patient_id, zone)
    return list(days.values())


def _add_glucose_hours(days: dict[date, StripDay], patient_id: UUID, zone: ZoneInfo) -> None:
    """Set which hours have a glucose value, in the time zone of the patient.

    A day with a daylight saving change has one hour less or more.
    """
    all_series = Series.objects.filter(user_id=patient_id, resource="glucose").order_by("pk")
    for series in all_series[:MAX_SERIES]:
        clock = ZoneInfo("UTC") if has_floating_time(series.provider) else zone
        edges = _hours(days, clock)
        with connection.cursor() as cursor:
            cursor.execute(POINTS, point_parameters(series, edges))
            numbers = {bucket for bucket, count, *_ in cursor.fetchall() if count}
        for number, edge in enumerate(edges[:-1], 1):
            day = days[edge.astimezone(clock).date()]
            position = int((edge - _midnight(day.day, clock)) / HOUR)
            while len(day.glucose) <= position:
                day.glucose.append(False)
            day.glucose[position] |= number in numbers


def _hours(days: Collection[date], zone: ZoneInfo) -> list[datetime]:
    begin = _midnight(min(days), zone)
    end = _midnight(max(days) + timedelta(days=1), zone)
    return [begin + HOUR * n for n in range(int((end - begin) / HOUR) + 1)]


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def expected_until(draw: date, zone: ZoneInfo) -> datetime:
    """Return the time until which there should be data: the end of the strip, or now."""
    return min(timezone.now(), _midnight(draw + timedelta(days=DAYS_AFTER + 1), zone))
