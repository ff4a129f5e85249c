"""What changed, told to pages that stand open: one row per batch and table, and which transaction.

The row commits together with the change. A page that knows which transactions it has seen can
therefore never miss one, however late it commits (see `live.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from django.db import connection, models
from django.utils import timezone

from backoffice.models import Change

MAX_NAMED_ROWS: Final = 200
"""So many rows of one batch are told by name; beyond it, only how many there were."""
RETENTION: Final = timedelta(hours=1)
_TRANSACTION: Final = "pg_current_xact_id()::text::bigint"
_RELATED: Final = ("user_id", "order_id")


def record_change(topic: str, subjects: Iterable[UUID]) -> None:
    """Tell that something of `topic` about these records changed, inside the caller's transaction.

    For what is no mirrored table: notes, signatures, assignments.
    """
    ids = sorted(set(subjects))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO backoffice_change (xact, topic, rows, subjects)"
            f" VALUES ({_TRANSACTION}, %s, 1, %s)",
            [topic, ids],
        )


def record_row_changes(
    model: type[models.Model], join: str, keys: list[object], count: int
) -> None:
    """Tell of `count` rows of `model`, found by `join` with the parameters `keys`.

    Inside the transaction that wrote them, after the writing.
    """
    table, named = model._meta.db_table, _subject_columns(model)
    columns = ", ".join(f'"{table}"."{column}"' for column in named)
    subjects = "NULL"
    if not named:
        subjects = "'{}'"
    elif count <= MAX_NAMED_ROWS:
        subjects = (
            f'ARRAY(SELECT DISTINCT subject FROM "{table}" {join},'
            f" unnest(ARRAY[{columns}]::uuid[]) AS subject WHERE subject IS NOT NULL)"
        )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO backoffice_change (xact, topic, rows, subjects)"
            f" VALUES ({_TRANSACTION}, %s, %s, {subjects})",
            [table, count, *(keys if "SELECT" in subjects else ())],
        )


def prune() -> None:
    """Forget what no open page asks for any more."""
    Change.objects.filter(at__lt=timezone.now() - RETENTION).delete()


@lru_cache(maxsize=64)
def _subject_columns(model: type[models.Model]) -> tuple[str, ...]:
    """The columns that say whom a row is about: its own id, the patient, the order."""
    own = {f.column for f in model._meta.fields if f.primary_key}
    return tuple(
        str(field.column)
        for field in model._meta.fields
        if field.column in own.union(_RELATED) and field.rel_db_type(connection) == "uuid"
    )
