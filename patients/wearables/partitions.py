"""Months of samples: made when first needed, dropped when no longer kept."""

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
MOST: Final = 36
"""Months made at once: a partition is for ever, and one event must not ask for hundreds."""
_TIDY: Final = "autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05"
"""Rows of the current days are rewritten all the time: give their old versions back soon."""


def month_of(day: date) -> date:
    return day.replace(day=1)


def table_of(month: date) -> str:
    return f"{PARENT}_{month:%Y_%m}"


def ensure(cursor: CursorWrapper, months: Iterable[date]) -> None:
    """Make the partitions of these months where there are none.

    ValueError where these are too many. Attached, not made as a partition: that would wait for,
    and stop, every reader and writer.
    """
    wanted = {table_of(month): month for month in sorted(months)}
    new = _absent(cursor, list(wanted))
    if not new:
        return
    if len(new) > MOST:
        raise ValueError(f"samples of {len(new)} months that have none yet come at once")
    # One lock for all months: with one each, a drain that has attached a month and wants another
    # waits for one that holds that and waits to attach it.
    cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_LOCK])
    # Another drain may have made some while we waited: this asks the catalogue itself, since
    # `to_regclass` may still answer from a cache of before.
    made = existing(cursor)
    for table in new:
        month = wanted[table]
        if month in made:
            continue
        cursor.execute(f'CREATE TABLE "{table}" (LIKE "{PARENT}" INCLUDING ALL) WITH ({_TIDY})')
        cursor.execute(
            f'ALTER TABLE "{PARENT}" ATTACH PARTITION "{table}"'
            f" FOR VALUES FROM ('{month}') TO ('{after(month)}')"
        )


def _absent(cursor: CursorWrapper, tables: list[str]) -> list[str]:
    cursor.execute(
        "SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL ORDER BY 1",
        [tables],
    )
    return [name for (name,) in cursor.fetchall()]


def existing(cursor: CursorWrapper) -> set[date]:
    """Months that have a partition."""
    cursor.execute(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [PARENT]
    )
    names = (_NAME.fullmatch(name.strip('"')) for (name,) in cursor.fetchall())
    return {date(int(found[1]), int(found[2]), 1) for found in names if found}


def after(month: date) -> date:
    """The month that follows."""
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def back(month: date, months: int) -> date:
    """The month that lies so many months before."""
    count = month.year * 12 + month.month - 1 - months
    return date(count // 12, count % 12 + 1, 1)


def forget() -> list[date]:
    """Drop the months that are older than SAMPLES_KEEP_MONTHS says; which were dropped."""
    kept = settings.SAMPLES_KEEP_MONTHS
    if not kept:
        return []
    return drop_before(back(month_of(datetime.now(UTC).date()), kept))


def drop_before(month: date) -> list[date]:
    """Forget every month before this one; which were dropped.

    Each by itself, and only if nobody is in the way for long: what is left is dropped with the
    next call.
    """
    with connection.cursor() as cursor:
        old = sorted(one for one in existing(cursor) if one < month)
    dropped = []
    for one in old:
        with suppress(OperationalError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '3s'")
            cursor.execute(f'DROP TABLE IF EXISTS "{table_of(one)}"')
            dropped.append(one)
    return dropped
