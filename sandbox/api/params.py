"""Parameter kinds: how the text of a query or path becomes a value.

Each kind parses one text or raises `Invalid`, and describes itself for the OpenAPI document.
A `Param` adds the name, whether it repeats (arrays are repeated keys) and the default.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.http import QueryDict

from sandbox.api.errors import Invalid, Problems


class Kind(Protocol):
    """How one text becomes a value."""

    def parse(self, text: str) -> Any: ...

    def schema(self) -> dict[str, object]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, within lengths (characters) and a pattern matched in full."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def parse(self, text: str) -> str:
        if "\x00" in text:
            raise Invalid("string_type", "String should not contain a null character")
        if self.min_length is not None and len(text) < self.min_length:
            raise Invalid(
                "string_too_short",
                f"String should have at least {self.min_length} characters",
                {"min_length": self.min_length},
            )
        if self.max_length is not None and len(text) > self.max_length:
            raise Invalid(
                "string_too_long",
                f"String should have at most {self.max_length} characters",
                {"max_length": self.max_length},
            )
        if self.pattern is not None and re.fullmatch(self.pattern, text, re.ASCII) is None:
            raise Invalid(
                "string_pattern_mismatch",
                f"String should match pattern '{self.pattern}'",
                {"pattern": self.pattern},
            )
        return text

    def schema(self) -> dict[str, object]:
        found: dict[str, object] = {"type": "string"}
        if self.min_length is not None:
            found["minLength"] = self.min_length
        if self.max_length is not None:
            found["maxLength"] = self.max_length
        if self.pattern is not None:
            found["pattern"] = self.pattern
        return found


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds, both inclusive; never beyond 64 bits."""

    ge: int | None = None
    le: int | None = None

    def parse(self, text: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) is None or abs(int(text)) >= 1 << 63:
            raise Invalid(
                "int_parsing",
                "Input should be a valid integer, unable to parse string as an integer",
            )
        value = int(text)
        if self.ge is not None and value < self.ge:
            raise Invalid(
                "greater_than_equal",
                f"Input should be greater than or equal to {self.ge}",
                {"ge": self.ge},
            )
        if self.le is not None and value > self.le:
            raise Invalid(
                "less_than_equal",
                f"Input should be less than or equal to {self.le}",
                {"le": self.le},
            )
        return value

    def schema(self) -> dict[str, object]:
        found: dict[str, object] = {"type": "integer"}
        if self.ge is not None:
            found["minimum"] = self.ge
        if self.le is not None:
            found["maximum"] = self.le
        return found


_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false, in the usual spellings."""

    def parse(self, text: str) -> bool:
        lowered = text.lower()
        if lowered in _TRUE:
            return True
        if lowered in _FALSE:
            return False
        raise Invalid("bool_parsing", "Input should be a valid boolean, unable to interpret input")

    def schema(self) -> dict[str, object]:
        return {"type": "boolean"}


_UUID = r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}"


@dataclass(frozen=True, slots=True)
class Uuid:
    """A uuid."""

    def parse(self, text: str) -> uuid.UUID:
        if re.fullmatch(_UUID, text) is None:
            raise Invalid("uuid_parsing", "Input should be a valid UUID")
        return uuid.UUID(text)

    def schema(self) -> dict[str, object]:
        return {"type": "string", "format": "uuid"}


@dataclass(frozen=True, slots=True)
class OneOf:
    """One value of a closed list, spelled exactly."""

    values: tuple[str, ...]

    def parse(self, text: str) -> str:
        if text not in self.values:
            *first, last = (f"'{value}'" for value in self.values)
            expected = f"{', '.join(first)} or {last}" if first else last
            raise Invalid("enum", f"Input should be {expected}", {"expected": expected})
        return text

    def schema(self) -> dict[str, object]:
        return {"type": "string", "enum": list(self.values)}


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|z|[+-]\d{2}:?\d{2})?", re.ASCII
)


def parse_day(text: str) -> dt.date | None:
    """A date written YYYY-MM-DD, else None."""
    if _DAY.fullmatch(text) is None:
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Day:
    """A date, YYYY-MM-DD."""

    def parse(self, text: str) -> dt.date:
        day = parse_day(text)
        if day is None:
            raise Invalid("date_from_datetime_parsing", "Input should be a valid date")
        return day

    def schema(self) -> dict[str, object]:
        return {"type": "string", "format": "date"}


@dataclass(frozen=True, slots=True)
class Moment:
    """A date-time (without offset: UTC), or a date that stands for `bare` on that day."""

    bare: dt.time = dt.time(0, 0, 0)

    def parse(self, text: str) -> dt.datetime:
        day = parse_day(text)
        if day is not None:
            return dt.datetime.combine(day, self.bare, dt.UTC)
        invalid = Invalid("datetime_from_date_parsing", "Input should be a valid date or datetime")
        if _MOMENT.fullmatch(text) is None:
            raise invalid
        try:
            value = dt.datetime.fromisoformat(text.upper())
            if value.tzinfo is None:
                return value.replace(tzinfo=dt.UTC)
            return value.astimezone(dt.UTC)
        except (ValueError, OverflowError):
            raise invalid from None

    def schema(self) -> dict[str, object]:
        return {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "format": "date"},
            ],
            "description": f"A date without a time means {self.bare:%H:%M:%S}.",
        }


START_OF_DAY = Moment(dt.time(0, 0, 0))
END_OF_DAY = Moment(dt.time(23, 59, 59))


@dataclass(frozen=True, slots=True)
class Param:
    """One query parameter.

    `many` takes repeated keys and yields a list; absent, it yields `default`. A single
    parameter given twice counts with its last value.
    """

    name: str
    kind: Kind
    default: Any = None
    required: bool = False
    many: bool = False
    note: str = ""
    deprecated: bool = False
    max_items: int | None = None

    def read(self, query: QueryDict, problems: Problems) -> Any:
        """The value of this parameter in `query`; misfits go to `problems`."""
        given = query.getlist(self.name)
        if not given:
            if self.required:
                problems.add(["query", self.name], Invalid("missing", "Field required"), None)
            return self.default
        if not self.many:
            return self._one(["query", self.name], given[-1], problems)
        if self.max_items is not None and len(given) > self.max_items:
            problems.add(
                ["query", self.name],
                Invalid(
                    "too_long",
                    f"List should have at most {self.max_items} items after validation",
                    {"max_length": self.max_items, "actual_length": len(given)},
                ),
                given,
            )
        return [
            self._one(["query", self.name, place], text, problems)
            for place, text in enumerate(given)
        ]

    def _one(self, loc: Sequence[str | int], text: str, problems: Problems) -> Any:
        try:
            return self.kind.parse(text)
        except Invalid as invalid:
            problems.add(loc, invalid, text)
            return None


@dataclass(frozen=True, slots=True)
class Place:
    """One part of a path, named in braces there."""

    name: str
    kind: Kind

    def read(self, text: str, problems: Problems) -> Any:
        try:
            return self.kind.parse(text)
        except Invalid as invalid:
            problems.add(["path", self.name], invalid, text)
            return None
