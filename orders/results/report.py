"""One report for reading: panels with the worst lines first, previous values, missing markers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.utils.translation import gettext, gettext_noop

from backoffice.core.prepared_queries import where
from backoffice.core.vocabulary import interpretations
from backoffice.core.vocabulary.measures import same_unit
from orders.models import Order, Result, ResultMarker
from orders.results.history import MarkerValue, marker_key, values_by_marker

FLAGGED_RANK: Final = interpretations.RANK["unknown"]
NORMAL_RANK: Final = interpretations.RANK["normal"]
SPARKLINE_POINTS: Final = 6
"""Points of the sparkline beside a value, including the value itself."""
SINGLE_MARKERS: Final = gettext_noop("Individual tests")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One value with the earlier values of the same marker."""

    marker: ResultMarker
    key: str
    values: Sequence[MarkerValue] = ()
    """Up to `SPARKLINE_POINTS` values, oldest first. The last one is of this report."""
    total: int = 0

    @property
    def rank(self) -> int:
        return interpretations.RANK.get(self.marker.interpretation, FLAGGED_RANK)

    @property
    def previous(self) -> MarkerValue | None:
        return self.values[-2] if len(self.values) > 1 else None

    @property
    def has_other_unit(self) -> bool:
        """Whether the previous value has another unit, which must then be shown."""
        return self.previous is not None and not same_unit(self.previous.unit, self.marker.unit)

    @property
    def direction(self) -> str:
        """`up`, `down` or `same` since the previous value; empty if they are not comparable."""
        before, now = self.previous, self.values[-1] if self.values else None
        if before is None or now is None or not before.is_comparable(now):
            return ""
        assert before.number is not None and now.number is not None
        if now.number == before.number:
            return "same"
        return "up" if now.number > before.number else "down"


@dataclass(slots=True)
class ReportPanel:
    """The values of one ordered marker, or the single markers together."""

    name: str
    rows: list[ReportRow] = field(default_factory=list)
    missing: list[ResultMarker] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The heading of the panel. The names of ordered markers are not translated."""
        return gettext(self.name) if self.name == SINGLE_MARKERS else self.name

    @property
    def rank(self) -> int:
        return min((row.rank for row in self.rows), default=NORMAL_RANK + 1)

    @property
    def flagged(self) -> int:
        return sum(row.rank <= FLAGGED_RANK for row in self.rows)


@dataclass(frozen=True, slots=True)
class ResultReport:
    panels: list[ReportPanel]
    flagged: int
    count: int
    has_newer_values: bool = False
    """Some marker has newer values than this report."""


def build_report(order: Order | None, result: Result | None, order_id: UUID) -> ResultReport:
    """Return the newest version in the mirror: two queries."""
    markers = where(ResultMarker, "result_id = %s ORDER BY position", [order_id])
    lab = order.lab_slug if order else None
    keys = {marker.position: marker_key(marker.loinc_slug, marker.slug, lab) for marker in markers}
    history = values_by_marker(
        order.user_id if order else None,
        (keys[marker.position] for marker in markers if not marker.is_missing),
    )
    has_newer_values = False
    rows = []
    for marker in markers:
        if marker.is_missing:
            continue
        key = keys[marker.position]
        values = history.get(key, [])
        upto = _values_until(values, order_id, marker.text)
        has_newer_values = has_newer_values or len(upto) < len(values)
        rows.append(ReportRow(marker, key, upto[-SPARKLINE_POINTS:], len(values)))
    panels = _panels(
        rows, [marker for marker in markers if marker.is_missing], _panel_names(result)
    )
    flagged = sum(row.rank <= FLAGGED_RANK for row in rows)
    return ResultReport(panels, flagged, len(rows), has_newer_values)


def _values_until(values: list[MarkerValue], order_id: UUID, text: str) -> list[MarkerValue]:
    """Return the values up to the one of this report.

    If the report has two values of the marker, the one with this text counts.
    """
    own_positions = [n for n, value in enumerate(values) if value.order_id == order_id]
    if not own_positions:
        return []
    place = next((n for n in own_positions if values[n].text == text), own_positions[-1])
    return [value for value in values[:place] if value.order_id != order_id] + [values[place]]


def _panels(
    rows: list[ReportRow], missing: list[ResultMarker], sources: dict[int, str]
) -> list[ReportPanel]:
    """Return the panels with more than one line, the worst first, and one for all other lines."""
    names = [sources.get(row.marker.position, "") for row in rows]
    names += [sources.get(marker.position, "") for marker in missing]
    panels: dict[str, ReportPanel] = {}

    def panel(position: int) -> ReportPanel:
        name = sources.get(position, "")
        name = name if names.count(name) > 1 and name else SINGLE_MARKERS
        return panels.setdefault(name, ReportPanel(name))

    for row in sorted(rows, key=lambda row: (row.rank, row.marker.position)):
        panel(row.marker.position).rows.append(row)
    for marker in missing:
        panel(marker.position).missing.append(marker)
    return sorted(panels.values(), key=lambda panel: (panel.rank, panel.name == SINGLE_MARKERS))


def _panel_names(result: Result | None) -> dict[int, str]:
    """Return the ordered marker of each line by position, according to the raw record."""
    try:
        record = json.loads(result.record) if result else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    lines: list[object] = []
    for name in ("results", "missing_results"):
        part = record.get(name)
        lines += part if isinstance(part, list) else []
    return {position: name for position, line in enumerate(lines) if (name := _panel_name(line))}


def _panel_name(line: object) -> str:
    sources = line.get("source_markers") if isinstance(line, dict) else None
    first = sources[0] if isinstance(sources, list) and sources else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""
