"""Monthly partitions of samples. They are created when first needed, and dropped when too old."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Final

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

PARENT: Final = "wearables_chunk"
_NAME: Final = re.compile(rf"{PARENT}_(\d{{4}})_(\d{{2}})")
_LOCK: Final = 0x57EA
MAX_NEW_MONTHS: Final = 36
"""Most months created at once. A partition stays, and one event must not create hundreds."""
_SETTINGS: Final = (
    "autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05"
)
"""Settings for frequent vacuums, because rows of the current days are rewritten often."""


def month_of(day: date) -> date:
    return day.replace(day=1)


def table_name(month: date) -> str:
    return f"{PARENT}_{month:%Y_%m}"


def ensure(cursor: CursorWrapper, months: Iterable[date]) -> None:
    """Create the missing partitions of these months.

    Raises ValueError if there are too many. The tables are first created and then attached: CREATE
    TABLE PARTITION OF would wait for, and block, every reader and writer.
    """
    months_by_table = {table_name(month): month for month in sorted(months)}
    new = _missing(cursor, list(months_by_table))
    if not new:
        return
    if len(new) > MAX_NEW_MONTHS:
        raise ValueError(f"samples of {len(new)} months that have none yet come at once")
    # One lock for all months. With one lock per month, two workers that need the same two months
    # could each hold one and wait for the other.
    cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_LOCK])
    # Another worker may have created some meanwhile. The catalog is read itself, because
    # `to_regclass` may still answer from its cache.
    existing_months = existing(cursor)
    for table in new:
        month = months_by_table[table]
        if month in existing_months:
            continue
        cursor.execute(f'CREATE TABLE "{table}" (LIKE "{PARENT}" INCLUDING ALL) WITH ({_SETTINGS})')
        cursor.execute(
            f'ALTER TABLE "{PARENT}" ATTACH PARTITION "{table}"'
            f" FOR VALUES FROM ('{month}') TO ('{next_month(month)}')"
        )


def _missing(cursor: CursorWrapper, tables: list[str]) -> list[str]:
    cursor.execute(
        "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL ORDER BY 1",
        [tables],
    )
    return [name for (name,) in cursor.fetchall()]


def existing(cursor: CursorWrapper) -> set[date]:
    """Return the months that have a partition."""
    cursor.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [PARENT]
    )
    names = (_NAME.fullmatch(name.strip('"')) for (name,) in cursor.fetchall())
    return {date(int(match[1]), int(match[2]), 1) for match in names if match}


def next_month(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def months_before(month: date, months: int) -> date:
    """Return the first day of the month that is `months` months earlier."""
    count = month.year * 12 + month.month - 1 - months
    return date(count // 12, count % 12 + 1, 1)


def drop_old() -> list[date]:
    """Drop the months older than SAMPLES_KEEP_MONTHS and return them."""
    months_to_keep = settings.SAMPLES_KEEP_MONTHS
    if not months_to_keep:
        return []
    return drop_before(months_before(month_of(datetime.now(UTC).date()), months_to_keep))


def drop_before(month: date) -> list[date]:
    """Drop every month before this one. Return the dropped months.

    Each month is dropped in its own transaction, unless another transaction locks the table for
    long. The next call drops the rest.
    """
    with connection.cursor() as cursor:
        old_months = sorted(other for other in existing(cursor) if other < month)
    dropped = []
    for old_month in old_months:
        with suppress(OperationalError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '3s'")
            cursor.execute(f'DROP TABLE IF EXISTS "{table_name(old_month)}"')
            dropped.append(old_month)
    return dropped
