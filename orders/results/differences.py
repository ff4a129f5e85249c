"""What changed between two versions of a result, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orders.results.models import ResultVersion

Line = Mapping[str, Any]

SEEN: Final = {
    "text": "value",
    "unit": "unit",
    "flag": "flag",
    "range": "reference range",
    "low": "reference range",
    "high": "reference range",
    "above": "flag",
    "below": "flag",
    "notes": "note",
    "why": "cause",
    "missing": "missing",
}
"""Parts of a line that are compared, in words."""


@dataclass(frozen=True, slots=True)
class Change:
    """One marker that is not as it was; `was` None: it is new, `now` None: it is gone."""

    name: str
    was: Line | None
    now: Line | None
    what: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    older: ResultVersion
    newer: ResultVersion
    changes: list[Change] = field(default_factory=list)
    same: int = 0


def difference(older: ResultVersion, newer: ResultVersion) -> Difference:
    """Markers that changed, came or went, in the newer version's order; and how many did not."""
    before, after = lines_by_marker(older.content), lines_by_marker(newer.content)
    changes = []
    same = 0
    for key, now in after.items():
        was = before.get(key)
        what = () if was is None else _changed(was, now)
        if was is not None and not what:
            same += 1
        else:
            changes.append(Change(now["name"], was, now, what))
    changes += [Change(was["name"], was, None) for key, was in before.items() if key not in after]
    return Difference(older, newer, changes, same)


def _changed(was: Line, now: Line) -> tuple[str, ...]:
    found = [words for name, words in SEEN.items() if was.get(name) != now.get(name)]
    if "missing" in found:
        return ("now missing" if now.get("missing") else "now back",)
    return tuple(dict.fromkeys(found))


def lines_by_marker(content: Mapping[str, Any]) -> dict[tuple[object, ...], Line]:
    """Lines of a version by what they are called; of two alike, the second by its number."""
    found: dict[tuple[object, ...], Line] = {}
    for line in content.get("lines", ()):
        key = (line.get("loinc"), line.get("slug") or line.get("name"))
        number = 0
        while (*key, number) in found:
            number += 1
        found[(*key, number)] = line
    return found
