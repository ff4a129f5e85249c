"""Prepared queries: statements that a connection plans once, not on every execution.

Most of the time of reading a few rows by key is planning. Use these functions only where the best
plan does not depend on the values: rows by key, rows of one record, and whole small tables. Do not
use them for filters, where the plan depends on how many rows match.

Name all columns: a migration that adds a column changes what `*` means. A migration that changes
the type of a column breaks the plans of connections that are older than it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.postgresql.base import ServerBindingCursor
from django.db.models import Field, Model

Row = TypeVar("Row", bound=Model)
Key = TypeVar("Key")
Names = tuple[str, ...]
_cursor: Any = ServerBindingCursor  # The stubs do not know that it is a psycopg cursor.


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare all queries inside the context, or in a view that this decorates.

    Does nothing when queries are logged, so that the log shows their values.
    """
    if connection.queries_logged:
        yield
        return
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    driver = connection.connection
    saved = driver.cursor_factory, driver.prepare_threshold
    # Prepare on the first execution, with values sent separately. Outside of this context nothing
    # is prepared: Django puts the values into its statements, so each would be a new one.
    driver.cursor_factory, driver.prepare_threshold = ServerBindingCursor, 0
    try:
        yield
    finally:
        driver.cursor_factory, driver.prepare_threshold = saved


@contextmanager
def cursor() -> Iterator[Any]:
    """Open a driver cursor: Django's work per statement costs as much as a small query."""
    django_connection = connections[DEFAULT_DB_ALIAS]
    if django_connection.queries_logged or django_connection.execute_wrappers:
        with django_connection.cursor() as db_cursor:
            yield db_cursor
        return
    django_connection.close_if_health_check_failed()
    django_connection.ensure_connection()
    django_connection.validate_no_broken_transaction()
    driver = django_connection.connection
    saved, driver.prepare_threshold = driver.prepare_threshold, 0
    try:
        with django_connection.wrap_database_errors, _cursor(driver) as db_cursor:
            yield db_cursor
    finally:
        driver.prepare_threshold = saved


@cache
def columns(model: type[Model], names: Names = (), exclude: Names = ()) -> str:
    """Return the column list for `read`: the fields `names` (default all) except `exclude`."""
    table = model._meta.db_table
    return ", ".join(f"{table}.{field.column}" for field in _fields(model, names, exclude))


def read(
    model: type[Row],
    statement: str,
    values: Sequence[Any] | Mapping[str, Any],
    names: Names = (),
    exclude: Names = (),
    *,
    planned: bool = True,
) -> list[Row]:
    """Execute a statement and return model instances.

    Its first result columns must be `columns(model, names, exclude)`. Further columns become
    attributes of the instances. With `planned=False` the statement is planned for its values.
    """
    fields = _fields(model, names, exclude)
    with cursor() if planned else connection.cursor() as db_cursor:
        db_cursor.execute(statement, values)
        records = db_cursor.fetchall()
        has_more = records and len(records[0]) > len(fields)
        more = [column.name for column in db_cursor.description[len(fields) :]] if has_more else []
    attribute_names = [field.attname for field in fields]
    converters = [
        (place, field.from_db_value)
        for place, field in enumerate(fields)
        if hasattr(field, "from_db_value")
    ]
    rows = []
    for record in records:
        field_values = list(record[: len(attribute_names)])
        for place, convert in converters:
            field_values[place] = convert(field_values[place], None, connection)
        row = model.from_db(DEFAULT_DB_ALIAS, attribute_names, field_values)
        if more:
            vars(row).update(zip(more, record[len(attribute_names) :], strict=True))
        rows.append(row)
    return rows


def where(
    model: type[Row],
    condition: str,
    values: Sequence[Any],
    names: Names = (),
    exclude: Names = (),
) -> list[Row]:
    """Return the instances of `model` that match a condition in SQL.

    For rows of one record: the ORM takes longer to build the query than PostgreSQL to answer it.
    """
    selection = f"SELECT {columns(model, names, exclude)} FROM {model._meta.db_table}"  # noqa: S608
    return read(model, f"{selection} WHERE {condition}", values, names, exclude)


def by_key(
    model: type[Row], keys: Iterable[Key], names: Names = (), exclude: Names = ()
) -> dict[Key, Row]:
    """Return instances by primary key, as `in_bulk` does; None in `keys` is ignored."""
    keys_array, field = array(key for key in keys if key is not None), model._meta.pk
    if keys_array == "{}" or field is None:
        return {}
    rows = where(model, f"{field.column} = ANY(%s)", [keys_array], names, exclude)
    return {row.pk: row for row in rows}


def array(values: Iterable[object]) -> str:
    """Return a PostgreSQL array literal: a list takes the driver four times as long."""
    quoted = [str(value).replace("\\", r"\\").replace('"', r"\"") for value in values]
    return '{"' + '","'.join(quoted) + '"}' if quoted else "{}"


@cache
def _fields(model: type[Model], names: Names, exclude: Names) -> list[Field[Any, Any]]:
    """Return fields in the order of the model; the primary key is always included."""
    # `get_field` also accepts the name of a column, such as `order_id`.
    included = {model._meta.get_field(name) for name in names}
    return [
        field
        for field in model._meta.concrete_fields
        if (not names or field in included or field.primary_key) and field.name not in exclude
    ]
