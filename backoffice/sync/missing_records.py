"""Rows of the mirror that a full list of the service does not contain.

Such rows are only suspects: `handle_suspects` decides, by asking the service for each if it can.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from django.db import connection

from backoffice.mirror.applying import flag_missing
from backoffice.mirror.tables import MirrorTable, RecordKey, key_text
from backoffice.mirror.unreadable_records import key_from_raw
from backoffice.sync.lookups import schedule_lookups
from backoffice.sync.models import SyncRun
from backoffice.sync.pagination import Batch

SuspectHandler: TypeAlias = Callable[[list[RecordKey], datetime], list[RecordKey]]
"""Handles the keys of suspects; returns those that count as missing."""


def flag_suspects(table: MirrorTable) -> SuspectHandler:
    """Return a handler for records without a call of their own: the list decides."""

    def handle_suspects(keys: list[RecordKey], asked_at: datetime) -> list[RecordKey]:
        flag_missing(table, keys, asked_at)
        return keys

    return handle_suspects


def look_up_suspects(kind: str) -> SuspectHandler:
    """Return a handler that looks each suspect up: a 404 flags it, an answer clears it."""

    def handle_suspects(keys: list[RecordKey], asked_at: datetime) -> list[RecordKey]:
        schedule_lookups(kind, [key[0] for key in keys])
        return keys

    return handle_suspects


class UnsortedListComparison:
    """For lists without an order: collects every key and compares after the last batch."""

    def __init__(
        self,
        run: SyncRun,
        table: MirrorTable,
        keys: Callable[[Any], list[RecordKey]],
        handle_suspects: SuspectHandler,
    ) -> None:
        self.run, self.table, self.keys, self.handle_suspects = run, table, keys, handle_suspects
        self.seen: set[RecordKey] = set()
        self.unreadable_keys: set[str] = set()

    def __call__(self, batch: Batch[Any], is_last: bool) -> list[str]:
        for record in batch.records:
            self.seen.update(self.keys(record))
        self.unreadable_keys.update(key_from_raw(item.raw) for item in batch.unreadable)
        if not is_last:
            return []
        started = self.run.started_at
        assert started is not None
        columns = ", ".join(f'"{column}"' for column in self.table.key)
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT {columns} FROM "{self.table.name}"'
                " WHERE missing_since IS NULL AND as_of < %s",
                [started],
            )
            missing = sorted(
                key
                for key in cursor.fetchall()
                if key not in self.seen and str(key[0]) not in self.unreadable_keys
            )
        return [key_text(key) for key in self.handle_suspects(missing, started)]


class SortedListComparison:
    """For lists sorted by creation: compares each batch with the rows of the same period.

    It collects nothing, so memory does not grow with the list, and a resumed run compares from
    where it resumed.
    """

    def __init__(
        self,
        run: SyncRun,
        table: MirrorTable,
        handle_suspects: SuspectHandler,
    ) -> None:
        self.run, self.table, self.handle_suspects = run, table, handle_suspects
        since = run.checkpoint.get("since")
        self.low = datetime.fromisoformat(since) if since else None
        self.at_low: set[object] = set()
        self.unreadable_keys: set[str] = set()

    def __call__(self, batch: Batch[Any], is_last: bool) -> list[str]:
        started = self.run.started_at
        assert started is not None
        created_at = {record.data.id: record.data.created_at for record in batch.records}
        self.unreadable_keys.update(key_from_raw(item.raw) for item in batch.unreadable)
        high = max(created_at.values(), default=self.low)
        upper = None if is_last else high
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT id FROM "{self.table.name}" WHERE missing_since IS NULL AND as_of < %s'
                " AND (%s::timestamptz IS NULL OR created_at >= %s)"
                " AND (%s::timestamptz IS NULL OR created_at < %s) ORDER BY id",
                [started, self.low, self.low, upper, upper],
            )
            missing = [
                key
                for (key,) in cursor.fetchall()
                if key not in created_at
                and key not in self.at_low
                and str(key) not in self.unreadable_keys
            ]
        if high != self.low:
            self.at_low = set()
        self.at_low |= {key for key, moment in created_at.items() if moment == high}
        self.low = high
        return [str(key) for (key,) in self.handle_suspects([(key,) for key in missing], started)]
