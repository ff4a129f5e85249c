"""Find the columns that made PostgreSQL refuse the rows of one record.

This runs only for a refused record, so it may be slow.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import Any, Final

from django.db import connection, models
from django.utils.translation import gettext_noop

from backoffice.mirror.datetime_limits import to_utc_in_range
from backoffice.mirror.tables import RowValues
from backoffice.service import DroppedField
from backoffice.service.json_text import replace_in_text

MAX_INDEXED_BYTES: Final = 2_000
"""Bytes of text that always fit an index entry (PostgreSQL: a third of a page)."""
RECORD: Final = "record"


class UnusableValue(ValueError):
    """A required column has no usable value."""


def clear_unusable_columns(
    model: type[models.Model], row: RowValues, required: Collection[str]
) -> list[DroppedField]:
    """Empty the columns of `row` with values that do not fit `model`, and return those columns.

    Text that only has unstorable characters is corrected and not returned. Raises UnusableValue if
    the value of a `required` column, or of one without an empty value, does not fit.
    """
    indexed = _indexed_columns(model)
    fields: dict[str, models.Field[Any, Any]] = {
        str(field.column): field for field in model._meta.fields
    }
    dropped = []
    for column, value in row.items():
        field = fields.get(column)
        if field is None or value is None:
            continue
        if isinstance(value, str):
            value = row[column] = replace_in_text(value)
        reason = _problem(field, value, column in indexed)
        if not reason:
            continue
        if column in required:
            raise UnusableValue(column)
        row[column] = _empty_value(field)
        dropped.append(DroppedField(f"$.{column}", reason))
    return dropped


def _problem(field: models.Field[Any, Any], value: object, is_indexed: bool) -> str:
    """Describe why a value does not fit, without the value itself; empty if it fits."""
    if isinstance(field, models.IntegerField):
        low, high = connection.ops.integer_field_range(field.get_internal_type())
        number = value if isinstance(value, int) else None
        if number is None or not (low or 0) <= number <= (high or 2**63 - 1):
            return gettext_noop("Number out of range for its column")
    elif isinstance(field, models.DateTimeField):
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            if not isinstance(moment, datetime):
                return gettext_noop("Date and time out of range")
            to_utc_in_range(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            return gettext_noop("Date and time out of range")
    elif isinstance(field, models.DateField):
        if not isinstance(value, (date, str)):
            return gettext_noop("Expected a date")
    elif isinstance(field, (models.CharField, models.TextField)) and field.column != RECORD:
        if not isinstance(value, str):
            return gettext_noop("Expected text")
        if field.max_length is not None and len(value) > field.max_length:
            return gettext_noop("Text too long for its column")
        if is_indexed and len(value.encode()) > MAX_INDEXED_BYTES:
            return gettext_noop("Text too long for an index")
    return ""


def _empty_value(field: models.Field[Any, Any]) -> object:
    if field.null:
        return None
    default: object = field.get_default()
    if default is None:
        raise UnusableValue(field.column)
    return default


def _indexed_columns(model: type[models.Model]) -> set[str]:
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, model._meta.db_table)
    return {
        column
        for index in constraints.values()
        if index["index"] or index["unique"]
        for column in index["columns"] or ()
        if column
    }
