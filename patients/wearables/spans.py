"""Time spans of charts and their points, in a time zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from django.utils.translation import gettext_noop

from backoffice.core.time_formats import calendar_day, short_day, weekday
from backoffice.core.time_formats import hour as hour_text
from backoffice.pages.charts import BARS, Tick

HOUR: Final = gettext_noop("hour")
DAY: Final = gettext_noop("day")
WEEK: Final = "week"
MONTH: Final = "month"
YEAR: Final = "year"
LENGTHS: Final[dict[str, int]] = {DAY: 1, WEEK: 7, MONTH: 31, YEAR: 365}
"""Number of days of each span, with the last day."""
LABELS: Final = {
    DAY: gettext_noop("Day"),
    WEEK: gettext_noop("Week"),
    MONTH: gettext_noop("Month"),
    YEAR: gettext_noop("Year"),
}

FIRST, LAST = date(1970, 1, 1), date(2099, 12, 31)


@dataclass(frozen=True, slots=True)
class Span:
    """`LENGTHS[name]` days that end with `last`, in `zone`."""

    name: str
    last: date
    zone: ZoneInfo

    @property
    def first(self) -> date:
        return self.last - timedelta(days=LENGTHS[self.name] - 1)

    def earlier(self) -> Span:
        return Span(self.name, self.first - timedelta(days=1), self.zone)

    def later(self) -> Span:
        return Span(self.name, self.last + timedelta(days=LENGTHS[self.name]), self.zone)

    def days(self) -> list[date]:
        return [self.first + timedelta(days=n) for n in range(LENGTHS[self.name])]

    def edges(self, kind: str) -> list[datetime]:
        """Return the start of each point, and the end of the last one.

        A day with a daylight saving change has one hour less or more.
        """
        begin, end = _midnight(self.first, self.zone), _midnight(self.last, self.zone, 1)
        if self.name == DAY:
            return _steps(begin, end, timedelta(minutes=60 if kind == BARS else 10))
        if self.name == WEEK and kind != BARS:
            return _steps(begin, end, timedelta(hours=1))
        hours = (0, 6, 12, 18) if self.name == MONTH and kind != BARS else (0,)
        edges = [_local(day, hour, self.zone) for day in self.days() for hour in hours]
        return [*edges, end]

    def each(self, kind: str) -> str:
        """Return the length of a point as text."""
        if self.name == DAY:
            return HOUR if kind == BARS else gettext_noop("10 minutes")
        if kind == BARS or self.name == YEAR:
            return DAY
        return HOUR if self.name == WEEK else gettext_noop("6 hours")

    def label(self, edge: datetime, kind: str) -> str:
        """Return the label of a point in the table of values."""
        local = edge.astimezone(self.zone)
        if self.name == DAY:
            return hour_text(local)
        day = day_label(local.date())
        return day if self.each(kind) == DAY else f"{day}, {hour_text(local)}"

    def ticks(self) -> list[Tick]:
        """Return marks at round local times."""
        begin, end = _midnight(self.first, self.zone), _midnight(self.last, self.zone, 1)
        length = (end - begin).total_seconds()

        def tick(moment: datetime, label: str) -> Tick:
            return Tick((moment - begin).total_seconds() / length, label)

        if self.name == DAY:
            edges = [_local(self.last, hour, self.zone) for hour in (0, 6, 12, 18)]
            return [tick(edge, hour_text(edge)) for edge in edges]
        chosen: Callable[[date], bool] = lambda day: True  # noqa: E731
        label: Callable[[date], str] = lambda day: f"{day:%a} {day.day}"  # noqa: E731
        if self.name == MONTH:
            chosen, label = lambda day: day.weekday() == 0, short_day
        elif self.name == YEAR:
            chosen, label = lambda day: day.day == 1, lambda day: f"{day:%b}"
        return [tick(_midnight(day, self.zone), label(day)) for day in self.days() if chosen(day)]

    def words(self) -> str:
        """Return a text such as `Tue, Mar 24, 2026`, or the first and the last day."""
        if self.name == DAY:
            return weekday(self.last, year=True)
        write = short_day if self.first.year == self.last.year else calendar_day
        return f"{write(self.first)} – {calendar_day(self.last)}"


def day_label(day: date) -> str:
    return weekday(day)


def _midnight(day: date, zone: ZoneInfo, after: int = 0) -> datetime:
    return _local(day + timedelta(days=after), 0, zone)


def _local(day: date, hour: int, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(hour), zone).astimezone(UTC)


def _steps(begin: datetime, end: datetime, step: timedelta) -> list[datetime]:
    return [*(begin + step * n for n in range((end - begin) // step)), end]
