"""Statements that are planned once by a connection, not each time: most of the time of finding a
few rows by their keys goes into the plan.

Only for those whose plan is the same whatever their values are: rows by their keys, and small
tables as a whole; never for rows that pass filters, where it depends on how many do. Columns are
named: `*` would be another one than was planned, once a migration adds a column. A migration that
changes the type of a column breaks the plans of connections that are older than it, which is one
more reason not to have one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.models import Model

Row = TypeVar("Row", bound=Model)


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
    usual = line.cursor_factory, line.prepare_threshold
    # At once, with values apart. Elsewhere never: the driver keeps statements to count them, and
    # those of Django have their values in them.
    line.cursor_factory, line.prepare_threshold = ServerBindingCursor, 0
    try:
        yield
    finally:
        line.cursor_factory, line.prepare_threshold = usual


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
