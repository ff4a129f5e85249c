"""Change rows, which tell open pages what changed: one row per batch and table.

A row holds the id of its transaction and commits together with the change. A page knows which
transactions it has seen, so it cannot miss one that commits late (see `live.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from django.db import connection, models
from django.utils import timezone

from backoffice.core.models import Change

MAX_NAMED_ROWS: Final = 200
"""Up to this many rows of a batch are listed by id; a larger batch only has its count."""
RETENTION: Final = timedelta(hours=1)
_TRANSACTION: Final = "pg_current_xact_id()::text::bigint"
_RELATED: Final = ("user_id", "order_id")


def record_change(topic: str, subjects: Iterable[UUID]) -> None:
    """Record that something of `topic` changed for these records, inside the caller's transaction.

    For data that is not in a mirrored table: notes, signatures, assignments.
    """
    ids = sorted(set(subjects))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_change (xact, topic, rows, subjects)"
            f" VALUES ({_TRANSACTION}, %s, 1, %s)",
            [topic, ids],
        )


def record_row_changes(
    model: type[models.Model], join: str, keys: Sequence[str | list[Any]], count: int
) -> None:
    """Record a change of `count` rows of `model`, selected by `join` with the parameters `keys`.

    Call it in the transaction that wrote the rows, after writing them.
    """
    table, subject_columns = model._meta.db_table, _subject_columns(model)
    columns = ", ".join(f'"{table}"."{column}"' for column in subject_columns)
    subjects = "NULL"
    if not subject_columns:
        subjects = "'{}'"
    elif count <= MAX_NAMED_ROWS:
        subjects = (
            f'ARRAY(SELECT DISTINCT subject FROM "{table}" {join},'
            f" unnest(ARRAY[{columns}]::uuid[]) AS subject WHERE subject IS NOT NULL)"
        )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO core_change (xact, topic, rows, subjects)"
            f" VALUES ({_TRANSACTION}, %s, %s, {subjects})",
            [table, count, *(keys if "SELECT" in subjects else ())],
        )


def prune() -> None:
    """Delete changes that no open page reads any more."""
    Change.objects.filter(at__lt=timezone.now() - RETENTION).delete()


@lru_cache(maxsize=64)
def _subject_columns(model: type[models.Model]) -> tuple[str, ...]:
    """Return the columns that identify a row's subjects: its own id, the patient, the order."""
    own = {f.column for f in model._meta.fields if f.primary_key}
    return tuple(
        str(field.column)
        for field in model._meta.fields
        if field.column in own.union(_RELATED) and field.rel_db_type(connection) == "uuid"
    )
