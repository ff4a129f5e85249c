"""Compare two versions of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from django.utils.translation import gettext, gettext_noop

from backoffice.service.json_text import JsonObject
from orders.models.review import ResultVersion

ResultLine: TypeAlias = JsonObject
"""One line of a stored version (`orders.sync.result_versions`)."""

COMPARED_PARTS: Final = {
    "text": gettext_noop("value"),
    "unit": gettext_noop("unit"),
    "flag": gettext_noop("flag"),
    "range": gettext_noop("reference range"),
    "low": gettext_noop("reference range"),
    "high": gettext_noop("reference range"),
    "above": gettext_noop("flag"),
    "below": gettext_noop("flag"),
    "notes": gettext_noop("note"),
    "why": gettext_noop("cause"),
    "missing": gettext_noop("missing"),
}
"""The parts of a line that are compared, with their labels."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """One marker that differs. `old` is None for an added marker, `new` for a removed one."""

    name: str
    old: ResultLine | None
    new: ResultLine | None
    changed_parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionDifference:
    older: ResultVersion
    newer: ResultVersion
    changes: list[LineChange] = field(default_factory=list)
    same: int = 0


def compare_versions(older: ResultVersion, newer: ResultVersion) -> VersionDifference:
    """Return the markers that changed, were added or removed, and the number of equal ones.

    Changes are in the order of the newer version, with removed markers last.
    """
    before, after = lines_by_marker(older.content), lines_by_marker(newer.content)
    changes = []
    same = 0
    for key, new in after.items():
        old = before.get(key)
        changed_parts = () if old is None else _changed_parts(old, new)
        if old is not None and not changed_parts:
            same += 1
        else:
            changes.append(LineChange(new["name"], old, new, changed_parts))
    changes += [
        LineChange(old["name"], old, None) for key, old in before.items() if key not in after
    ]
    return VersionDifference(older, newer, changes, same)


def _changed_parts(old: ResultLine, new: ResultLine) -> tuple[str, ...]:
    names = [name for name in COMPARED_PARTS if old.get(name) != new.get(name)]
    if "missing" in names:
        return (gettext("now missing") if new.get("missing") else gettext("now reported"),)
    return tuple(dict.fromkeys(gettext(COMPARED_PARTS[name]) for name in names))


def lines_by_marker(content: Mapping[str, Any]) -> dict[tuple[object, ...], ResultLine]:
    """Return the lines of a version by (LOINC code, slug or name, number among equal ones)."""
    lines: dict[tuple[object, ...], ResultLine] = {}
    for line in content.get("lines", ()):
        key = (line.get("loinc"), line.get("slug") or line.get("name"))
        number = 0
        while (*key, number) in lines:
            number += 1
        lines[(*key, number)] = line
    return lines
