"""The chart component: points over time as inline SVG, with the same data as a table.

CSS stretches the SVG to its container. So strokes do not scale, and text is outside of the SVG, in
the font sizes of the page. It has no style attribute and no script, because the content security
policy allows neither.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil, floor, log10
from typing import Any, Final

from django.utils.translation import gettext, gettext_noop

HEIGHT: Final = 300
STEP: Final = 10
"""SVG units: `HEIGHT` of the chart, `STEP` from one point to the next."""
BAR: Final = 8
LARGEST: Final = 1e300
"""Larger numbers are placed at the edge, because their sums and differences would overflow."""
_NOISE: Final = 1e-9
"""A smaller relative difference between two values is a rounding error."""

LINE: Final = "line"
BARS: Final = "bars"
SPAN: Final = "span"


@dataclass(frozen=True, slots=True)
class Point:
    """A period of time and its value. A `value` of None is a gap.

    In a LINE chart, `low` and `high` are the band around `value`. In a SPAN chart they are the two
    ends. `is_filling`: the value is a total to which its source may still add.
    """

    label: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 0
    is_filling: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the time axis. `place` is from 0 to 1. The label is to the right of the mark."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The data of a chart. `kind` is LINE, BARS or SPAN.

    The texts are: `each`, the period of one point; `times`, the clock that its times are from;
    `note`, the data that is left out.
    """

    id: str
    title: str
    unit: str
    kind: str
    points: Sequence[Point]
    ticks: Sequence[Tick]
    each: str
    source: str = ""
    times: str = ""
    note: str = ""


def chart_context(plot: Chart) -> dict[str, Any]:
    """Return the context of `components/chart.html`."""
    measured = [point for point in plot.points if point.value is not None]
    context: dict[str, Any] = {"chart": plot, "empty": not measured}
    if not measured:
        return context
    bottom, top, step = scale(_values(measured), from_zero=plot.kind == BARS)
    levels = [bottom + step * i for i in range(round((top - bottom) / step) + 1)]
    axis = _Axis(bottom, top)
    return {
        **context,
        "width": len(plot.points) * STEP,
        "height": HEIGHT,
        "levels": [(axis.share(level), axis.y(level), number_text(level)) for level in levels],
        "ticks": [
            (f"{tick.place * 100:.2f}%", round(tick.place * len(plot.points) * STEP), tick.label)
            for tick in plot.ticks
        ],
        "paths": _paths(plot, axis),
        "rows": _table_rows(plot),
        "filling": _listed([point.label for point in measured if point.is_filling]),
        "heads": HEADS[plot.kind],
        "facts": _facts(plot, measured),
        "gaps": sum(1 for is_gap, _ in groupby(p.value is None for p in plot.points) if is_gap),
    }


HEADS: Final = {
    LINE: (gettext_noop("Average"), gettext_noop("Lowest"), gettext_noop("Highest")),
    BARS: (gettext_noop("Total"),),
    SPAN: (gettext_noop("Upper"), gettext_noop("Lower")),
}
"""Headers of the columns of values, in English: the template translates them."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """The conversion of values to vertical positions. The top is 0."""

    bottom: float
    top: float

    def y(self, value: float) -> int:
        inside = min(max(value, self.bottom), self.top)
        return round(HEIGHT * (self.top - inside) / (self.top - self.bottom))

    def share(self, value: float) -> str:
        return f"{100 * (self.top - value) / (self.top - self.bottom):.2f}%"


def scale(values: Sequence[float], *, from_zero: bool) -> tuple[float, float, float]:
    """Return bottom, top and step of an axis with three to six round levels around the values."""
    low, high = (min(max(end, -LARGEST), LARGEST) for end in (min(values), max(values)))
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    size = max(abs(low), abs(high))
    if high - low < _NOISE * size or low == high:
        room = max(1.0, size / 1000)
        low, high = (low - room, high + room) if low or not from_zero else (0.0, 1.0)
    rough = max((high - low) / 4, 1 / LARGEST)
    power = 10.0 ** floor(log10(rough))
    step = next(power * size for size in (1, 2, 2.5, 5, 10) if power * size >= rough)
    return floor(low / step) * step, ceil(high / step) * step, step


def number_text(value: float) -> str:
    """Format a number: `1,240`, `5.4`, `0.003`.

    It has three significant digits, or all integer digits if there are more. Trailing zeros are
    removed.
    """
    size = abs(value)
    if size >= 1e15:
        return f"{value:.2e}".replace("-", "−")
    if size >= 100 or value == round(value):
        return f"{round(value):,}".replace("-", "−")
    digits = max(1, 2 - floor(log10(size))) if size else 0
    return f"{value:,.{min(digits, 9)}f}".rstrip("0").rstrip(".").replace("-", "−")


def _values(points: Sequence[Point]) -> list[float]:
    values = (v for p in points for v in (p.value, p.low, p.high) if v is not None)
    return list(values)


def _runs(points: Sequence[Point]) -> Iterator[list[tuple[int, Point]]]:
    """Yield groups of points without a gap between them, each point with its index."""
    for is_measured, run in groupby(enumerate(points), key=lambda pair: pair[1].value is not None):
        if is_measured:
            yield list(run)


def _paths(plot: Chart, axis: _Axis) -> list[tuple[str, str]]:
    """Return the CSS class and the SVG path of each shape."""
    if plot.kind == BARS:
        zero = axis.y(0)
        bars = {False: "", True: ""}
        for i, point in enumerate(plot.points):
            if point.value:
                left, top = i * STEP + (STEP - BAR) // 2, axis.y(point.value)
                bars[point.is_filling] += f"M{left} {zero}V{top}h{BAR}V{zero}z"
        return [("bars", bars[False]), ("bars filling", bars[True])]
    if plot.kind == SPAN:
        spans = (
            f"M{i * STEP + STEP // 2} {axis.y(point.high)}V{axis.y(point.low)}"
            for i, point in enumerate(plot.points)
            if point.high is not None and point.low is not None
        )
        return [("spans", "".join(spans))]
    lines: list[str] = []
    dots: list[str] = []
    bands: list[str] = []
    for run in _runs(plot.points):
        start = run[0][0] * STEP + STEP // 2
        middle = [axis.y(point.value or 0.0) for _, point in run]
        (lines if len(run) > 1 else dots).append(_line_path(start, middle))
        highs = [axis.y(point.high) for _, point in run if point.high is not None]
        lows = [axis.y(point.low) for _, point in run if point.low is not None]
        if len(run) > 1 and len(highs) == len(lows) == len(run) and highs != lows:
            back = "".join(f"{-STEP} {b - a} " for a, b in pairwise(lows[::-1]))
            bands.append(f"{_line_path(start, highs)}V{lows[-1]}l{back}z")
    return [("band", "".join(bands)), ("line", "".join(lines)), ("dots", "".join(dots))]


def _line_path(start: int, heights: list[int]) -> str:
    """Return the path of a line through points one step apart. A single point is a dot."""
    steps = "".join(f"{STEP} {b - a} " for a, b in pairwise(heights))
    return f"M{start} {heights[0]}" + (f"l{steps}" if steps else "h0")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table: a point with its values, or a gap without."""

    label: str
    values: tuple[str, ...] = ()


def _table_rows(plot: Chart) -> list[TableRow]:
    """Return the rows of the table. A gap is one row."""
    rows = []
    for is_measured, run in groupby(plot.points, key=lambda point: point.value is not None):
        points = list(run)
        if not is_measured:
            first, last = points[0].label, points[-1].label
            rows.append(TableRow(first if first == last else f"{first} – {last}"))
            continue
        for point in points:
            texts = (
                gettext(_NOT_GIVEN) if v is None else number_text(v)
                for v in _displayed_values(plot.kind, point)
            )
            label = point.label
            if point.is_filling:
                label = gettext("%(period)s, still filling") % {"period": label}
            rows.append(TableRow(label, (*texts, f"{point.count:,}")))
    return rows


_NOT_GIVEN: Final = gettext_noop("not given")
_NAMED: Final = 3


def _displayed_values(kind: str, point: Point) -> list[float | None]:
    if kind == SPAN:
        return [point.high, point.low]
    value = point.value or 0.0
    high = value if point.high is None else point.high
    low = value if point.low is None else point.low
    return [value] if kind == BARS else [value, low, high]


def _facts(plot: Chart, measured: list[Point]) -> list[tuple[str, str]]:
    """Return the summary values of the whole chart, each with its label."""
    if plot.kind == BARS:
        facts = [(gettext("Total"), number_text(sum(point.value or 0.0 for point in measured)))]
        # A total that is still filling would lower the mean.
        if whole := [point.value or 0.0 for point in measured if not point.is_filling]:
            label = gettext("Mean per %(period)s") % {"period": plot.each}
            facts.append((label, number_text(sum(whole) / len(whole))))
        return facts
    if plot.kind == SPAN:
        ends = (
            (gettext("Upper"), [p.high for p in measured]),
            (gettext("Lower"), [p.low for p in measured]),
        )
        return [(name, _from_to([v for v in limits if v is not None])) for name, limits in ends]
    values = _values(measured)
    count = sum(point.count for point in measured)
    mean = sum((point.value or 0.0) * point.count for point in measured) / count
    return [
        (gettext("Average"), number_text(mean)),
        (gettext("Lowest"), number_text(min(values))),
        (gettext("Highest"), number_text(max(values))),
    ]


def _listed(labels: list[str]) -> str:
    """Join labels: `14:00, 15:00`. Of more than three, only the last ones are named."""
    if len(labels) <= _NAMED:
        return ", ".join(labels)
    return gettext("%(periods)s, and %(count)d before") % {
        "periods": ", ".join(labels[-_NAMED:]),
        "count": len(labels) - _NAMED,
    }


def _from_to(values: list[float]) -> str:
    if not values:
        return gettext(_NOT_GIVEN)
    low, high = number_text(min(values)), number_text(max(values))
    return low if low == high else f"{low}–{high}"
