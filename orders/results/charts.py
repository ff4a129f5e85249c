"""Geometry of the charts of results: the line of a value's history, and the chart of one marker.

Coordinates of a sparkline are SVG units, those of a trend percentages, as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from backoffice.core.time_formats import calendar_day
from backoffice.pages.charts import number_text, scale
from orders.results.history import MarkerValue

SPARKLINE_WIDTH: Final = 64
SPARKLINE_HEIGHT: Final = 16


@dataclass(frozen=True, slots=True)
class Sparkline:
    """SVG paths of the lines between values, of all values, and the position of the last one."""

    lines: str
    dots: str
    last: str
    width: int = SPARKLINE_WIDTH
    height: int = SPARKLINE_HEIGHT


def sparkline_of(values: Sequence[MarkerValue]) -> Sparkline | None:
    """Return earlier values and this one as a line; a gap where the unit differs.

    None for fewer than two numbers in the unit of the last value.
    """
    numbers = [value for value in values if value.number is not None]
    if len(numbers) < 2:
        return None
    now = values[-1]
    same = [value for value in numbers if value.has_unit(now.unit)]
    if now.number is None or len(same) < 2:
        return None
    ends = [value.number for value in same if value.number is not None]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0
    step = (SPARKLINE_WIDTH - 8) / max(len(values) - 1, 1)

    def place(position: int, value: MarkerValue) -> str:
        assert value.number is not None
        height = (value.number - low) / span * (SPARKLINE_HEIGHT - 6)
        return f"{4 + position * step:.1f} {SPARKLINE_HEIGHT - 3 - height:.1f}"

    lines = "".join(
        f"M{place(n, value)}L{place(n + 1, other)}"
        for n, (value, other) in enumerate(pairwise(values))
        if value.is_comparable(other) and value.has_unit(now.unit)
    )
    dots = "".join(
        f"M{place(n, value)}h0"
        for n, value in enumerate(values)
        if value.number is not None and value.has_unit(now.unit)
    )
    return Sparkline(lines, dots, place(len(values) - 1, now))


class TrendBand(NamedTuple):
    x: str
    y: str
    width: str
    height: str


class TrendLevel(NamedTuple):
    y: str
    label: str


class TrendLine(NamedTuple):
    x1: str
    y1: str
    x2: str
    y2: str


class TrendMark(NamedTuple):
    """The mark of a value. Its path has the shape of its flag."""

    x: str
    y: str
    flag: str
    path: str


class TrendDay(NamedTuple):
    x: str
    label: str


@dataclass(frozen=True, slots=True)
class Trend:
    """The values of a marker in its newest unit over time.

    Ranges differ between labs, so each point has its own band of the reference range. No line
    crosses a value of another unit.
    """

    bands: list[TrendBand]
    levels: list[TrendLevel]
    lines: list[TrendLine]
    marks: list[TrendMark]
    days: list[TrendDay]


def trend_of(values: Sequence[MarkerValue]) -> Trend | None:
    """Return the chart of one marker; None without a number."""
    numbers = [v for v in values if v.number is not None]
    if not numbers:
        return None
    unit = numbers[-1].unit
    plotted = [v for v in numbers if v.has_unit(unit)]
    ends = [n for v in plotted for n in (v.number, v.low, v.high) if n is not None]
    bottom, top, step = scale(ends, from_zero=False)
    first = plotted[0].sort_time
    length = (plotted[-1].sort_time - first).total_seconds()

    def x(value: MarkerValue) -> float:
        return 5 + 90 * (value.sort_time - first).total_seconds() / length if length else 50

    def y(number: float) -> float:
        return 100 * (top - min(max(number, bottom), top)) / (top - bottom)

    places = [x(v) for v in plotted]
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(places)), 100.0]
    levels = [bottom + step * n for n in range(round((top - bottom) / step) + 1)]
    return Trend(
        bands=[
            TrendBand(
                f"{left:.2f}", f"{y(up):.2f}", f"{right - left:.2f}", f"{y(down) - y(up):.2f}"
            )
            for v, (left, right) in zip(plotted, pairwise(edges), strict=True)
            if v.low is not None or v.high is not None
            for up in [top if v.high is None else v.high]
            for down in [bottom if v.low is None else v.low]
        ],
        levels=[TrendLevel(f"{y(level):.2f}", number_text(level)) for level in levels],
        lines=[
            TrendLine(f"{x(a):.2f}", f"{y(a.number):.2f}", f"{x(b):.2f}", f"{y(b.number):.2f}")
            for a, b in pairwise(numbers)
            if a.is_comparable(b)
            and a.has_unit(unit)
            and a.number is not None
            and b.number is not None
        ],
        marks=[
            TrendMark(f"{x(v):.2f}", f"{y(v.number or 0.0):.2f}", v.flag, _mark_path(v))
            for v in plotted
        ],
        days=[
            TrendDay(f"{x(v):.2f}", calendar_day(v.sort_time))
            for v in dict.fromkeys((plotted[0], plotted[-1]))
        ],
    )


def _mark_path(value: MarkerValue) -> str:
    """Return the SVG path of a mark.

    It is an octagon for critical, a triangle that points to the side for abnormal, a square for not
    interpreted, and else a disc.
    """
    if value.flag == "critical":
        return "M-2.5-6h5L6-2.5v5L2.5 6h-5L-6 2.5v-5z"
    if value.flag == "unknown":
        return "M-4-4h8v8h-8z"
    if value.flag == "abnormal":
        return "M-6-4H6L0 6z" if value.side == "low" else "M-6 4H6L0-6z"
    return "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"
