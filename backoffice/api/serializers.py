"""Base classes of the serializers of the JSON API.

They are declared like any `ModelSerializer`: `Meta.model`, `Meta.fields`, nested serializers.
drf-spectacular reads the declarations. Only `to_representation` differs: a column is copied from
the row as it is, because `OrjsonRenderer` writes UUIDs, dates and times. DRF calls two functions
for each value, which takes nine times as long. The record as received is copied into the response
as text, byte for byte; see `docs/decisions/json-encoder.md`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, Final

import orjson
from django.db import models
from rest_framework import serializers

from backoffice.accounts.access import may
from backoffice.core.encryption.encrypted_fields import UNREADABLE

MIRROR_FIELDS: Final = ("record", "as_of", "missing_since")
"""Fields of every mirrored record."""
_HELP_TEXTS: Final = {
    "as_of": "When this version was asked for",
    "missing_since": "When the service was found to no longer have it",
}


class RawJSONField(serializers.DictField):
    """JSON as received, copied as text."""

    def to_representation(self, value: Any) -> Any:
        return None if value == UNREADABLE else orjson.Fragment(value)


class KeyField(serializers.CharField):
    """The `id` of a record to which the service gives none: its natural key, joined by ":"."""

    def __init__(self, *columns: str) -> None:
        super().__init__(source="*", read_only=True)
        self.columns = columns

    def to_representation(self, value: Any) -> str:
        return ":".join(str(getattr(value, column)) for column in self.columns)


class ColumnSerializer(serializers.ModelSerializer[Any]):
    # Columns of a row as they are, and declared fields as in DRF. All are read-only.
    # No docstring: it would stand in the OpenAPI document as that of every subclass without one.

    field_permissions: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Fields that need an extra permission, mapped to it. Without it the value is null."""

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return {name: read(instance) for name, read in self._readers.items()}

    @cached_property
    def _readers(self) -> dict[str, Callable[[Any], Any]]:
        readers: dict[str, Callable[[Any], Any]] = {}
        for name in self.Meta.fields:
            if (field := copy.deepcopy(self._declared_fields.get(name))) is not None:
                field.bind(name, self)
                readers[name] = partial(_represent, field)
            else:
                readers[name] = attrgetter(name)
        for name, permission in self.field_permissions.items():
            if not may(self.context["request"].user, permission):
                readers[name] = _hide
        return readers

    def row_keys(self) -> list[Any]:
        """Return the primary keys of all rows of the response, to read about all in one query."""
        rows = self.root.instance
        return [row.pk for row in (rows if isinstance(rows, list) else [rows])]

    # For the OpenAPI document

    def get_extra_kwargs(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"read_only": True}
            | ({"help_text": _HELP_TEXTS[name]} if name in _HELP_TEXTS else {})
            for name in self.Meta.fields
        }

    def get_uniqueness_extra_kwargs(self, *args: Any) -> tuple[Any, dict[str, Any]]:
        """Return no defaults and hidden fields, which are for checks of what is written."""
        return args[-1], {}

    def build_field(self, field_name: str, info: Any, model_class: Any, nested_depth: int) -> Any:
        """Describe the column, not the relation: `user_id` is a UUID. Choices stay open."""
        column = target = model_class._meta.get_field(field_name)
        while isinstance(target, models.ForeignKey):
            target = target.target_field
        field_class, options = self.build_standard_field(field_name, target)
        options = {
            name: options[name] for name in ("child", "encoder", "decoder") if name in options
        }
        if help_text := str(column.help_text):
            options["help_text"] = help_text
        if issubclass(field_class, serializers.ChoiceField):
            field_class = serializers.CharField
        return field_class, {**options, "allow_null": column.null}


class MirrorSerializer(ColumnSerializer):
    # A mirrored record: its promoted columns, and the record as received.

    record = RawJSONField(
        allow_null=True,
        read_only=True,
        help_text="As received; null without the permission to see records",
    )
    field_permissions = MappingProxyType({"record": "records.view"})


class SearchSerializer(serializers.Serializer[Any]):
    """The body of a search, for the OpenAPI document; `filters.py` checks it."""

    limit = serializers.RegexField(
        "^([1-9][0-9]{0,2}|1000)$", required=False, help_text="1 to 1000, 100 by default"
    )
    cursor = serializers.CharField(
        required=False, allow_blank=True, help_text="`next` of the page before"
    )


def _represent(field: serializers.Field[Any, Any, Any, Any], row: Any) -> Any:
    value = field.get_attribute(row)
    return None if value is None else field.to_representation(value)


def _hide(row: Any) -> None:
    return None
