"""Statements that are planned once by a connection, not each time: most of the time of finding a
few rows by their keys goes into the plan.

Only for those whose plan is the same whatever their values are: rows by their keys, those of one
record, and small tables as a whole; never for what people filter by, where it depends on how many
rows pass. Columns are named: `*` would be another one than was planned, once a migration adds a
column. A migration that changes the type of a column breaks the plans of connections that are older
than it, which is one more reason not to have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.models import Model

Row = TypeVar("Row", bound=Model)
Names = tuple[str, ...]
_cursor: Any = ServerBindingCursor


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
    """Straight at the driver: what Django does around a statement takes as long as a small one."""
    ours = connections[DEFAULT_DB_ALIAS]
    if ours.queries_logged or ours.execute_wrappers:
        with ours.cursor() as asked:
            yield asked
        return
    ours.close_if_health_check_failed()
    ours.ensure_connection()
    ours.validate_no_broken_transaction()
    line = ours.connection
    usual, line.prepare_threshold = line.prepare_threshold, 0
    try:
        with ours.wrap_database_errors, _cursor(line) as asked:
            yield asked
    finally:
        line.prepare_threshold = usual


@cache
def columns(model: type[Model], names: Names = (), but: Names = ()) -> str:
    """Columns of a model as `read` wants them: of the fields of these names, or all `but` some."""
    table = model._meta.db_table
    return ", ".join(f"{table}.{field.column}" for field in _fields(model, names, but))


def read(
    model: type[Row],
    statement: str,
    values: Sequence[Any] | Mapping[str, Any],
    names: Names = (),
    but: Names = (),
    *,
    planned: bool = True,
) -> list[Row]:
    """Rows that begin with these `columns` of `model`; what follows them become attributes.

    Not `planned`: a statement of its own, whose plan depends on its values.
    """
    fields = _fields(model, names, but)
    with cursor() if planned else connection.cursor() as asked:
        asked.execute(statement, values)
        found = asked.fetchall()
        told_more = found and len(found[0]) > len(fields)
        more = [column.name for column in asked.description[len(fields) :]] if told_more else []
    own = [field.attname for field in fields]
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
        row = model.from_db(DEFAULT_DB_ALIAS, own, told)
        if more:
            vars(row).update(zip(more, given[len(own) :], strict=True))
        rows.append(row)
    return rows


def where(
    model: type[Row],
    condition: str,
    values: Sequence[Any],
    names: Names = (),
    but: Names = (),
) -> list[Row]:
    """Rows of one record, under a condition in SQL: what the ORM composes anew each time takes
    longer than the answer."""
    found = f"SELECT {columns(model, names, but)} FROM {model._meta.db_table}"  # noqa: S608
    return read(model, f"{found} WHERE {condition}", values, names, but)


def by_key(
    model: type[Row], keys: Iterable[Any], names: Names = (), but: Names = ()
) -> dict[Any, Row]:
    """Rows by their primary keys, as `in_bulk` has them, with these `columns`; None is no key."""
    wanted, key = array(one for one in keys if one is not None), model._meta.pk
    if wanted == "{}" or key is None:
        return {}
    return {row.pk: row for row in where(model, f"{key.column} = ANY(%s)", [wanted], names, but)}


def array(values: Iterable[object]) -> str:
    """An array as PostgreSQL reads it: as a list it costs the driver four times the time."""
    written = [str(value).replace("\\", r"\\").replace('"', r"\"") for value in values]
    return '{"' + '","'.join(written) + '"}' if written else "{}"


@cache
def _fields(model: type[Model], names: Names, but: Names) -> list[Any]:
    """In the order of the model; the key is always among them."""
    named = {model._meta.get_field(name) for name in names}
    return [
        field
        for field in model._meta.concrete_fields
        if (not names or field in named or field.primary_key) and field.name not in but
    ]
