"""A foreign key that the database computes from other columns of its row."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class GeneratedForeignKey(models.ForeignKey[Any, Any]):
    """Foreign key that is a stored generated column: read and joined, never written.

    `expression` is SQL over columns of the same row. Django's `GeneratedField` cannot be a foreign
    key. A trigger would do the same, but PostgreSQL inserts row by row in a COPY into a table with
    a trigger before each row. Constraints of the model that name this field cannot be validated
    in Python, because the expression is text.
    """

    generated = True
    db_persist = True
    db_returning = True

    def __init__(self, to: Any, on_delete: Any, *, expression: str, **options: Any) -> None:
        self.expression = expression
        super().__init__(to, on_delete, editable=False, **options)

    def deconstruct(self) -> tuple[str, str, Any, dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        del kwargs["editable"]
        return name, path, args, {**kwargs, "expression": self.expression}

    def generated_sql(self, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        """Return the expression and its parameters, as the schema editor asks for them."""
        return self.expression, []
