"""One report as it is read: lines worst first, panels, what was before, what is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from backoffice.core.prepared_queries import where
from backoffice.core.vocabulary import interpretations
from backoffice.core.vocabulary.measures import same_unit
from orders.models import Order, Result, ResultMarker
from orders.results.history import Value, key_of, values_of

FLAGGED_RANK: Final = interpretations.RANK["unknown"]
NORMAL_RANK: Final = interpretations.RANK["normal"]
SPARK: Final = 6
"""Points of the small line beside a value, the value itself included."""
ALONE: Final = "Single markers"


@dataclass(frozen=True, slots=True)
class Row:
    """One value with what the same marker was before."""

    marker: ResultMarker
    key: str
    values: Sequence[Value] = ()
    """Up to `SPARK`, oldest first; the last one is of this report."""
    total: int = 0

    @property
    def rank(self) -> int:
        return interpretations.RANK.get(self.marker.interpretation, FLAGGED_RANK)

    @property
    def previous(self) -> Value | None:
        return self.values[-2] if len(self.values) > 1 else None

    @property
    def other_unit(self) -> bool:
        """The value before has a unit of its own: it has to be said."""
        return self.previous is not None and not same_unit(self.previous.unit, self.marker.unit)

    @property
    def direction(self) -> str:
        """`up`, `down` or `same` since the value before; empty where the two do not compare."""
        before, now = self.previous, self.values[-1] if self.values else None
        if before is None or now is None or not before.comparable(now):
            return ""
        assert before.number is not None and now.number is not None
        if now.number == before.number:
            return "same"
        return "up" if now.number > before.number else "down"


@dataclass(slots=True)
class Panel:
    """Values of one ordered marker, or those that stand alone."""

    name: str
    rows: list[Row] = field(default_factory=list)
    missing: list[ResultMarker] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return min((row.rank for row in self.rows), default=NORMAL_RANK + 1)

    @property
    def flagged(self) -> int:
        return sum(row.rank <= FLAGGED_RANK for row in self.rows)


@dataclass(frozen=True, slots=True)
class Report:
    panels: list[Panel]
    flagged: int
    count: int
    later: bool = False
    """Newer values of some marker exist than this report has."""


def report_of(order: Order | None, result: Result | None, order_id: UUID) -> Report:
    """The newest version, as the mirror has it: two queries."""
    markers = where(ResultMarker, "result_id = %s ORDER BY position", [order_id])
    lab = order.lab_slug if order else None
    keys = {one.position: key_of(one.loinc_slug, one.slug, lab) for one in markers}
    history = values_of(
        order.user_id if order else None,
        (keys[one.position] for one in markers if not one.is_missing),
    )
    later = False
    rows = []
    for one in markers:
        if one.is_missing:
            continue
        key = keys[one.position]
        values = history.get(key, [])
        upto = _upto(values, order_id, one.text)
        later = later or len(upto) < len(values)
        rows.append(Row(one, key, upto[-SPARK:], len(values)))
    panels = _panels(rows, [one for one in markers if one.is_missing], _sources(result))
    flagged = sum(row.rank <= FLAGGED_RANK for row in rows)
    return Report(panels, flagged, len(rows), later)


def _upto(values: list[Value], order_id: UUID, text: str) -> list[Value]:
    """Values until the one of this report, which is the last; of two in one report, this text."""
    own = [n for n, value in enumerate(values) if value.order_id == order_id]
    if not own:
        return []
    place = next((n for n in own if values[n].text == text), own[-1])
    return [value for value in values[:place] if value.order_id != order_id] + [values[place]]


def _panels(rows: list[Row], missing: list[ResultMarker], sources: dict[int, str]) -> list[Panel]:
    """Panels with more than one line, the worst first; the others together."""
    names = [sources.get(row.marker.position, "") for row in rows]
    names += [sources.get(one.position, "") for one in missing]
    panels: dict[str, Panel] = {}

    def panel(position: int) -> Panel:
        name = sources.get(position, "")
        name = name if names.count(name) > 1 and name else ALONE
        return panels.setdefault(name, Panel(name))

    for row in sorted(rows, key=lambda row: (row.rank, row.marker.position)):
        panel(row.marker.position).rows.append(row)
    for one in missing:
        panel(one.position).missing.append(one)
    return sorted(panels.values(), key=lambda one: (one.rank, one.name == ALONE))


def _sources(result: Result | None) -> dict[int, str]:
    """Which ordered marker each line comes from, by position, as the record tells."""
    try:
        said = json.loads(result.record) if result else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    lines: list[Any] = []
    for name in ("results", "missing_results"):
        part = said.get(name)
        lines += part if isinstance(part, list) else []
    return {position: name for position, line in enumerate(lines) if (name := _source(line))}


def _source(line: Any) -> str:
    found = line.get("source_markers") if isinstance(line, dict) else None
    first = found[0] if isinstance(found, list) and found else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else ""
