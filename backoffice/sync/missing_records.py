"""What the mirror has and a full list of the service has not.

Rows are suspects only: `then` decides, by asking the service for each where it can.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from django.db import connection

from backoffice import mirror
from backoffice.models import SyncRun
from backoffice.sync.lookups import mark
from backoffice.sync.pagination import Batch

Then: TypeAlias = Callable[[list[mirror.RecordKey], datetime], list[mirror.RecordKey]]
"""Acts on suspects; returns those that count as unseen."""


def flagging(table: mirror.MirrorTable) -> Then:
    """For records that have no call of their own: the list is the last word."""

    def then(keys: list[mirror.RecordKey], asked_at: datetime) -> list[mirror.RecordKey]:
        mirror.flag_missing(table, keys, asked_at)
        return keys

    return then


def looking_up(kind: str) -> Then:
    """For records that can be asked for: a 404 flags them, an answer clears them."""

    def then(keys: list[mirror.RecordKey], asked_at: datetime) -> list[mirror.RecordKey]:
        mark(kind, [key[0] for key in keys])
        return keys

    return then


class InWholeList:
    """For lists in no order: collects every key, compares when the walk has ended."""

    def __init__(
        self,
        run: SyncRun,
        table: mirror.MirrorTable,
        keys: Callable[[Any], list[mirror.RecordKey]],
        then: Then,
    ) -> None:
        self.run, self.table, self.keys, self.then = run, table, keys, then
        self.seen: set[mirror.RecordKey] = set()
        self.unread: set[str] = set()

    def __call__(self, batch: Batch[Any], last: bool) -> list[str]:
        for record in batch.records:
            self.seen.update(self.keys(record))
        self.unread.update(mirror.key_from_raw(item.raw) for item in batch.unreadable)
        if not last:
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
            absent = sorted(
                key
                for key in cursor.fetchall()
                if key not in self.seen and str(key[0]) not in self.unread
            )
        return [mirror.key_text(key) for key in self.then(absent, started)]


class InCreationOrder:
    """For lists sorted by creation: compares each batch with the rows of the same stretch of time.

    Nothing is collected, so memory does not grow with the list, and a resumed walk compares from
    where it resumed.
    """

    def __init__(
        self,
        run: SyncRun,
        table: mirror.MirrorTable,
        then: Then,
    ) -> None:
        self.run, self.table, self.then = run, table, then
        since = run.checkpoint.get("since")
        self.low = datetime.fromisoformat(since) if since else None
        self.at_low: set[Any] = set()
        self.unread: set[str] = set()

    def __call__(self, batch: Batch[Any], last: bool) -> list[str]:
        started = self.run.started_at
        assert started is not None
        moments = {record.data.id: record.data.created_at for record in batch.records}
        self.unread.update(mirror.key_from_raw(item.raw) for item in batch.unreadable)
        high = max(moments.values(), default=self.low)
        upper = None if last else high
        with connection.cursor() as cursor:
            cursor.execute(
                f'SELECT id FROM "{self.table.name}" WHERE missing_since IS NULL AND as_of < %s'
                " AND (%s::timestamptz IS NULL OR created_at >= %s)"
                " AND (%s::timestamptz IS NULL OR created_at < %s) ORDER BY id",
                [started, self.low, self.low, upper, upper],
            )
            absent = [
                key
                for (key,) in cursor.fetchall()
                if key not in moments and key not in self.at_low and str(key) not in self.unread
            ]
        if high != self.low:
            self.at_low = set()
        self.at_low |= {key for key, moment in moments.items() if moment == high}
        self.low = high
        return [str(key) for (key,) in self.then([(key,) for key in absent], started)]
