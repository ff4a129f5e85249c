"""Statements that a connection prepares, and others that it does not keep."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import DatabaseError, connection

from backoffice.core import prepared_queries
from patients.models import Insurance
from tests.api.rows import envelope

pytestmark = pytest.mark.django_db


def is_prepared(words: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return any(words in statement for (statement,) in cursor.fetchall())


def test_only_prepared_queries_are_planned_once() -> None:
    with prepared_queries.cursor() as cursor:
        cursor.execute("SELECT %s::text AS ours", ["once"])
        assert cursor.fetchone() == ("once",)
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::text AS theirs", ["each time"])
    assert is_prepared("AS ours") and not is_prepared("AS theirs")
    assert not [key for key in connection.connection._prepared._counts if b"each time" in key[0]]


def test_failed_query_leaves_connection_unchanged() -> None:
    before = connection.connection.cursor_factory, connection.connection.prepare_threshold
    with pytest.raises(DatabaseError), prepared_queries.cursor() as cursor:
        cursor.execute("SELECT 1/%s::int", [0])
    assert (connection.connection.cursor_factory, connection.connection.prepare_threshold) == before


def test_read_rows_equal_model_rows_with_encrypted_columns() -> None:
    key = uuid4()
    Insurance.objects.create(
        id=key, user_id=uuid4(), is_primary=True, member_id="M-1", **envelope('{"a": 1}')
    )
    own = Insurance.objects.get()
    statement = f"SELECT {prepared_queries.columns(Insurance)}, 7 AS more FROM patients_insurance"
    (read,) = prepared_queries.read(Insurance, f"{statement} WHERE id = %s", [key])
    for field in Insurance._meta.concrete_fields:
        assert getattr(read, field.attname) == getattr(own, field.attname), field.name
    assert (read.member_id, read.record, read.more) == ("M-1", '{"a": 1}', 7)  # type: ignore[attr-defined]


def test_rows_are_read_by_key_with_requested_columns() -> None:
    keys = [uuid4(), uuid4()]
    for key in keys:
        Insurance.objects.create(
            id=key, user_id=uuid4(), is_primary=True, member_id="M-1", **envelope('{"a": 1}')
        )
    found = prepared_queries.by_key(Insurance, [*keys, uuid4()], ("member_id",))
    assert found.keys() == set(keys)
    assert found[keys[0]].member_id == "M-1" and "record" in found[keys[0]].get_deferred_fields()
    rest = prepared_queries.by_key(Insurance, keys[:1], exclude=("record",))[keys[0]]
    assert rest.get_deferred_fields() == {"record"}
    assert prepared_queries.by_key(Insurance, []) == {}
    assert len(prepared_queries.where(Insurance, "is_primary ORDER BY id", [])) == len(keys)


def test_array_keeps_its_values() -> None:
    given = ["plain", "", 'a "quoted" word', "back\\slash", "{1,2}", "NULL", "a, b", "\n", "é"]
    for words in (given, []):
        with prepared_queries.cursor() as cursor:
            cursor.execute("SELECT %s::text[]", [prepared_queries.array(words)])
            assert cursor.fetchone() == (words,)
