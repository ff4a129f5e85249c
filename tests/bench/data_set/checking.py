"""Checks that the data set is what the mirror would have written: its own records are given to the
mirror again.

A correct row has an equal content hash, so nothing is written. With another hash it is written
again, and must be equal in every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.db import connection, models, transaction

from backoffice.mirror.applying import apply_batch
from backoffice.mirror.tables import MirrorRecord, MirrorTable, RecordKey
from backoffice.service import Record
from backoffice.service.appointments import APPOINTMENT
from backoffice.service.orders import ORDER, TRANSACTION
from backoffice.service.payload import Reader
from backoffice.service.results import RESULT
from backoffice.service.users import UserInfo, UserPayload
from orders.sync.appointments import APPOINTMENTS
from orders.sync.orders import ORDERS, TRANSACTIONS, mirror_record_of
from orders.sync.results import RESULTS
from patients.sync import DEMOGRAPHICS, PATIENTS

SAMPLE: Final = 150
RECORD_TYPES: Final[tuple[tuple[MirrorTable, Reader[Any]], ...]] = (
    (ORDERS, ORDER),
    (TRANSACTIONS, TRANSACTION),
    (APPOINTMENTS, APPOINTMENT),
    (RESULTS, RESULT),
    (PATIENTS, Reader(UserPayload)),
    (DEMOGRAPHICS, Reader(UserInfo)),
)


class _RollBack(Exception):
    """Raised to roll back the trial."""


def check() -> list[str]:
    """Return descriptions of what is wrong with a sample of each kind."""
    problems: list[str] = []
    for table, reader in RECORD_TYPES:
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT count(*) FROM "{table.name}"')
            share = min(100.0, 100.0 * 4 * SAMPLE / max(1, cursor.fetchone()[0]))
            cursor.execute(
                f'SELECT {", ".join(table.key)}, record FROM "{table.name}"'
                f" TABLESAMPLE BERNOULLI ({share}) LIMIT {SAMPLE}"
            )
            rows = cursor.fetchall()
        if not rows:
            problems.append(f"{table.name} is empty")
        records = [_read_again(table, reader, row[:-1], row[-1]) for row in rows]
        problems += [f"{table.name}: {text}" for text in _apply_again(table, records)]
    return problems


def _read_again(
    table: MirrorTable, reader: Reader[Any], key: tuple[Any, ...], text: str
) -> MirrorRecord:
    read = reader.read(text.encode(), datetime.now(UTC))
    assert isinstance(read, Record), (table.name, read)
    return mirror_record_of(read) if table is ORDERS else MirrorRecord.from_service(read, *key)


def _apply_again(table: MirrorTable, records: Sequence[MirrorRecord]) -> list[str]:
    outcome = apply_batch(table, records)
    problems = [] if outcome.unchanged == len(records) else [f"{outcome.unchanged} were unchanged"]
    keys = [record.key for record in records]
    try:
        with transaction.atomic():
            before = _rows(table, keys)
            table.model.objects.filter(pk__in=[key[0] for key in keys]).update(  # type: ignore[attr-defined]
                content_hash=b"another", as_of=datetime(2000, 1, 1, tzinfo=UTC)
            )
            apply_batch(table, records)
            after = _rows(table, keys)
            for name, rows_before in before.items():
                if rows_before != after[name]:
                    differences = [
                        (column, first[column], second[column])
                        for first, second in zip(rows_before, after[name], strict=False)
                        for column in first
                        if first[column] != second[column]
                    ]
                    problems.append(
                        f"{name} differs: {len(rows_before)} {len(after[name])} {differences[:3]}"
                    )
            raise _RollBack
    except _RollBack:
        return problems


def _rows(table: MirrorTable, keys: Sequence[RecordKey]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows and their child rows, without the columns that say when and from what they
    were made."""
    rows = {table.name: _values(table.model, "pk__in", [key[0] for key in keys], table.key)}
    for children in table.children:
        rows[children.name] = _values(
            children.model, f"{children.parent}__in", [key[0] for key in keys], children.key
        )
    return rows


def _values(
    model: type[models.Model], condition: str, keys: list[Any], order: Sequence[str]
) -> list[dict[str, Any]]:
    rows = model._default_manager.filter(**{condition: keys}).order_by(*order).values()
    return [
        {name: value for name, value in row.items() if name not in ("as_of", "pk")} for row in rows
    ]
