"""Statements that are planned once by a connection, not each time: most of the time of finding a
few rows by their keys goes into the plan.

Only for those whose plan is the same whatever their values are, never for lists, where it depends
on how many rows pass. Columns are named: `*` would be another one than was planned, once a
migration adds a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.models import Model

Row = TypeVar("Row", bound=Model)


class _Prepared(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None) -> Any:
        return super().execute(query, params, prepare=True)  # type: ignore[misc]


@contextmanager
def prepared() -> Iterator[None]:
    """For what is asked inside, also by a view that this decorates. Whoever has statements logged
    wants to see them with their values: then they are asked so."""
    if connection.queries_logged:
        yield
        return
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    line: Any = connection.connection
    usual, line.cursor_factory = line.cursor_factory, _Prepared
    try:
        yield
    finally:
        line.cursor_factory = usual


@contextmanager
def cursor() -> Iterator[Any]:
    with prepared(), connection.cursor() as asked:
        yield asked


def columns(model: type[Model]) -> str:
    """All columns of a model, as `read` wants them."""
    return ", ".join(f"{model._meta.db_table}.{field.column}" for field in _fields(model))


def read(model: type[Row], statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Row]:
    """Rows that begin with the `columns` of `model`; what follows them become attributes."""
    with cursor() as asked:
        asked.execute(statement, values)
        found = asked.fetchall()
        names = [column.name for column in asked.description]
    fields = _fields(model)
    own, more = [field.attname for field in fields], names[len(fields) :]
    read_by = [
        (place, field.from_db_value)
        for place, field in enumerate(fields)
        if hasattr(field, "from_db_value")
    ]
    rows = []
    for given in found:
        told = list(given[: len(own)])
        for place, convert in read_by:
            told[place] = convert(told[place], None, connection)
        row = model.from_db(connection.alias, own, told)
        vars(row).update(zip(more, given[len(own) :], strict=True))
        rows.append(row)
    return rows


def _fields(model: type[Model]) -> Sequence[Any]:
    return model._meta.concrete_fields
