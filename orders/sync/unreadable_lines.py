"""Parts of a result that could not be read.

Their lines are still shown, so a result never gets shorter. Such a line is never normal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from backoffice.mirror.tables import MirrorRecord, RowValues
from backoffice.service import json_text

T = TypeVar("T")

UNNAMED_LINE: Final = "Line without a name"
NOT_INTERPRETED: Final = "unknown"
LISTS: Final = ("results", "missing_results")

_PLACE: Final = re.compile(r"\$\.(results|missing_results)\[(\d+)\](?:\.(.+))?")


@dataclass(frozen=True, slots=True)
class UnreadableParts:
    """The unreadable parts of one result.

    These are parts of its head, whole `lines` by list and index (as received), and fields of lines
    that are otherwise readable.
    """

    raw: bytes
    head: list[str] = field(default_factory=list)
    lines: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in LISTS})
    fields: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of lines that could not be read, completely or in part."""
        return sum(map(len, self.lines.values())) + len(self.fields)

    @property
    def all(self) -> list[str]:
        """Return the names of all parts; empty if the whole result was read."""
        places = [f"{name}[{place}]" for name in LISTS for place in sorted(self.lines[name])]
        return [*self.head, *places, *(part for parts in self.fields.values() for part in parts)]

    def in_place(self, name: str, read: Sequence[T]) -> Iterator[tuple[int, T | None, list[str]]]:
        """Yield the lines of a list with their index as received and the fields that each lacks.

        A line that could not be read is None.
        """
        lost, following = self.lines[name], iter(read)
        for place in range(len(read) + len(lost)):
            line = None if place in lost else next(following)
            yield place, line, self.fields.get((name, place), [])

    def name(self, name: str, place: int) -> str:
        """Return the name of a line that could not be read, if it has one."""
        try:
            lines = json.loads(json_text.make_decodable(self.raw))[name]
            text = lines[place]["name"]
        except (ValueError, RecursionError, LookupError, TypeError):
            text = ""
        return text.strip() if isinstance(text, str) and text.strip() else UNNAMED_LINE


def parts_of(record: MirrorRecord) -> UnreadableParts:
    """Return the unreadable parts of a result."""
    parts = UnreadableParts(record.raw)
    for dropped in record.dropped:
        place = _PLACE.fullmatch(dropped.path)
        if place is None:
            parts.head.append(dropped.path.removeprefix("$.").removeprefix("metadata."))
        elif place[3] is None:
            parts.lines[place[1]].add(int(place[2]))
        else:
            parts.fields.setdefault((place[1], int(place[2])), []).append(place[3])
    return parts


def interpretation(reading: str | None, unreadable: Sequence[str]) -> str | None:
    """Return the interpretation of something that was read only in part.

    The missing part may be the abnormal one. So the interpretation is "not interpreted", unless the
    readable part is abnormal or worse.
    """
    is_normal = (reading or "").strip().casefold() in ("", "normal")
    return NOT_INTERPRETED if unreadable and is_normal else reading


def line(record: MirrorRecord, position: int, name: str, *, is_missing: bool = False) -> RowValues:
    """Return the columns of a line that replaces an unreadable one.

    So the result has all its lines. The line is not interpreted.
    """
    return {
        "result_id": record.key[0],
        "position": position,
        "is_missing": is_missing,
        "name": name,
        "slug": "",
        "text": "",
        "value": None,
        "type": "",
        "unit": None,
        "timestamp": None,
        "timestamp_written": None,
        "reference_range": None,
        "min_range_value": None,
        "max_range_value": None,
        "is_above_max_range": None,
        "is_below_min_range": None,
        "interpretation": "" if is_missing else NOT_INTERPRETED,
        "interpretation_received": None,
        "source_interpretation": "",
        "side": "",
        "loinc": None,
        "loinc_slug": None,
        "provider_id": None,
        "notes": None,
        "failure_type": None,
        "is_unreadable": True,
        "unreadable_fields": "",
    }
