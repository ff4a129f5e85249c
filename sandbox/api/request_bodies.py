"""JSON bodies: their fields, checked all at once like parameters (errors-and-limits.md 1.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from django.http import HttpRequest

from sandbox.api.errors import Invalid, Problems, Refusal
from sandbox.api.params import Kind, Text

Loc = Sequence[str | int]
Check = Callable[[Any], Any]
"""Turns a JSON value into what is wanted, or raises Invalid."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body. `nullable` ones take null; `many`: a list of what `check` takes;
    `fields`: an object of these fields, instead of `check`; `shape`: the JSON schema of one
    value. `other_name`: another key that is read when the name itself is absent."""

    name: str
    check: Check | None = None
    required: bool = False
    nullable: bool = False
    many: bool = False
    default: Any = None
    shape: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    fields: Sequence[Field] = ()
    other_name: str = ""

    def schema(self) -> dict[str, Any]:
        one = object_schema(self.fields) if self.fields else dict(self.shape)
        shape = {"type": "array", "items": one} if self.many else one
        return {"anyOf": [shape, {"type": "null"}]} if self.nullable else shape

    def read(self, body: dict[str, Any], problems: Problems, at: Loc = ("body",)) -> Any:
        """Return the value of this field in the object at the place `at`."""
        loc = [*at, self.name]
        if self.name not in body and self.other_name in body:
            loc = [*at, self.other_name]
            body = {self.name: body[self.other_name]}
        if self.name not in body:
            if self.required:
                problems.add(loc, Invalid("missing", "Field required"), body)
            return self.default
        value = body[self.name]
        if value is None and self.nullable:
            return None
        if not self.many:
            return self._one(loc, value, problems)
        if not isinstance(value, list):
            problems.add(loc, Invalid("list_type", "Input should be a valid list"), value)
            return self.default
        return [self._one([*loc, place], each, problems) for place, each in enumerate(value)]

    def _one(self, loc: Loc, value: Any, problems: Problems) -> Any:
        if self.fields:
            return read_object(loc, value, self.fields, problems)
        try:
            return (self.check or text)(value)
        except Invalid as invalid:
            problems.add(loc, invalid, value)
            return self.default


def typed_field(name: str, kind: Kind, **more: Any) -> Field:
    """Return a field whose text is parsed and described by a parameter kind."""
    return Field(name, parsed_by(kind), shape=kind.schema(), **more)


def read_object(
    loc: Loc, value: Any, fields: Sequence[Field], problems: Problems
) -> dict[str, Any]:
    """Return the fields of the object at `loc`; absent ones have their default."""
    if not isinstance(value, dict):
        kind = Invalid("model_attributes_type", "Input should be a valid dictionary")
        problems.add(loc, kind, value)
        return {}
    return {each.name: each.read(value, problems, loc) for each in fields}


def read_body(request: HttpRequest, fields: Sequence[Field]) -> dict[str, Any]:
    """Return the fields by name, absent ones with their default; 422 with every problem.

    Unknown fields are ignored.
    """
    problems = Problems()
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        problems.add(["body"], Invalid("json_invalid", "JSON decode error"), None)
        raise Refusal(422, problems.items) from None
    values = read_object(["body"], body, fields, problems)
    problems.settle()
    return values


def object_schema(fields: Sequence[Field]) -> dict[str, Any]:
    """The JSON schema of an object of these fields."""
    described: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: each.schema() for each in fields},
    }
    if required := [each.name for each in fields if each.required]:
        described["required"] = required
    return described


def schema(fields: Sequence[Field]) -> dict[str, Any]:
    """The body by content type, for the OpenAPI document."""
    return {"application/json": {"schema": object_schema(fields)}}


def given_names(request: HttpRequest) -> set[str]:
    """The names in a body that `read_body` has accepted."""
    return set(orjson.loads(request.body))


def parsed_by(kind: Kind) -> Check:
    """Text that a parameter kind understands."""

    def check(value: Any) -> Any:
        return kind.parse(text(value))

    return check


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid("string_type", "Input should be a valid string")
    return value


def limited_text(most: int) -> Check:
    """Text of at most so many characters."""
    return parsed_by(Text(max_length=most))


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid("bool_type", "Input should be a valid boolean")
    return value


def whole(low: int, high: int) -> Check:
    """A whole number within both bounds."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Invalid("int_type", "Input should be a valid integer")
        if value < low:
            message = f"Input should be greater than or equal to {low}"
            raise Invalid("greater_than_equal", message, {"ge": low})
        if value > high:
            message = f"Input should be less than or equal to {high}"
            raise Invalid("less_than_equal", message, {"le": high})
        return int(value)

    return check


def text_map(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Invalid("dict_type", "Input should be a valid dictionary")
    if not all(isinstance(each, str) for each in value.values()):
        raise Invalid("string_type", "Input should be a valid string")
    return value
