"""Samples into their table: set-based, exact, safe for several drains at once.

A batch is brought together per series and day before a row is touched. One statement per month
then inserts new rows and appends to those whose newest sample is older than all that came: the
ordinary case. The rows it passes by (locked by then) are read, merged sample by sample, where the
one received later wins, and written back; a merge that changes nothing writes nothing. Rows are
locked in the order of month, series and day, by every drain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import Any, Final, TypeAlias
from uuid import UUID

from django.db import connection
from django.db.backends.utils import CursorWrapper

from patients.wearables import chunks
from patients.wearables.arrivals import Arrival, Origin, SeriesKey, Usual
from patients.wearables.partitions import ensure, month_of, table_of

TAIL: Final = 128
"""Samples: a row with so many beside its long arrays still fits its page uncompressed."""

_EPOCH: Final = date(1970, 1, 1)
ChunkKey: TypeAlias = tuple[int, int]
"""Series, and day since 1970."""

_WHOLE: Final = {
    "first_at": "bigint",
    "last_at": "bigint",
    "block": "integer",
    "number": "integer",
    "divisor": "integer",
    "zone": "integer",
    "length": "integer",
    "source": "integer",
}
_ARRAYS: Final = {
    "seconds": "integer[]",
    "micros": "integer[]",
    "scaled": "integer[]",
    "wide": "double precision[]",
    "numbers": "integer[]",
    "zones": "integer[]",
    "lengths": "integer[]",
    "sources": "integer[]",
}
_COLUMNS: Final = (*_WHOLE, *_ARRAYS, "extras")
_TAILS: Final = ("tail_seconds", "tail_scaled", "tail_wide", "tail_numbers")
_ROWS: Final = (
    "unnest(%s::integer[], %s::date[], "
    + ", ".join(f"%s::{kind}[]" for kind in _WHOLE.values())
    + ", "
    + ", ".join("%s::text[]" for _ in _ARRAYS)
    + f", %s::jsonb[]) AS came(series_id, day, {', '.join(_COLUMNS)})"
)
_AS_SENT: Final = ", ".join(
    f"came.{column}::{_ARRAYS[column]}" if column in _ARRAYS else f"came.{column}"
    for column in _COLUMNS
)
_THEIR_NUMBERS: Final = (
    "coalesce(excluded.numbers, array_fill(excluded.number, ARRAY[cardinality(excluded.seconds)]))"
)
_FITS: Final = f"coalesce(cardinality(c.tail_seconds), 0) + cardinality(excluded.seconds) <= {TAIL}"


def _appended(column: str) -> str:
    """The long array as it is while the tail has room, else all three end to end."""
    held, sent = f"c.{column}", f"excluded.{column}"
    if column == "numbers":
        held = f"coalesce({held}, array_fill(c.number, ARRAY[cardinality(c.seconds)]))"
        sent = _THEIR_NUMBERS
    tail = f"tail_{column}"
    return (
        f"{column} = CASE WHEN {_FITS} THEN c.{column} ELSE {held} || c.{tail} || {sent} END,"
        f" {tail} = CASE WHEN {_FITS} THEN c.{tail} || {sent} END"
    )


_APPEND: Final = (
    "INSERT INTO {table} AS c (series_id, day, " + ", ".join(_COLUMNS) + ")"
    f" SELECT came.series_id, came.day, {_AS_SENT} FROM {_ROWS} ORDER BY 1, 2"
    " ON CONFLICT (series_id, day) DO UPDATE SET last_at = excluded.last_at,"
    f" number = CASE WHEN {_FITS} THEN c.number END, "
    + ", ".join(map(_appended, ("seconds", "scaled", "wide", "numbers")))
    + " WHERE c.last_at < excluded.first_at AND c.block = excluded.block"
    " AND c.divisor = excluded.divisor AND c.source = excluded.source"
    " AND c.zone IS NOT DISTINCT FROM excluded.zone"
    " AND c.length IS NOT DISTINCT FROM excluded.length AND excluded.extras IS NULL"
    + "".join(
        f" AND c.{column} IS NULL AND excluded.{column} IS NULL"
        for column in ("micros", "zones", "lengths", "sources")
    )
    + " RETURNING c.series_id, c.day"
)
_READ: Final = (
    f"SELECT series_id, day, {', '.join((*_COLUMNS, *_TAILS))} FROM {{table}}"
    " JOIN unnest(%s::integer[], %s::date[]) AS wanted(series_id, day) USING (series_id, day)"
    " ORDER BY 1, 2 FOR UPDATE OF {table}"
)
_REWRITE: Final = (
    "UPDATE {table} AS c SET ("
    + ", ".join(_COLUMNS)
    + f") = ROW({_AS_SENT}), "
    + ", ".join(f"{column} = NULL" for column in _TAILS)
    + f" FROM {_ROWS} WHERE c.series_id = came.series_id AND c.day = came.day"
)


def store(arrivals: Sequence[Arrival]) -> None:
    """Keep the samples of these arrivals, inside the caller's transaction.

    Arrivals may come in any order and any number of times: numbers decide.
    """
    arrivals = [arrival for arrival in arrivals if arrival.data]
    if not arrivals:
        return
    with connection.cursor() as cursor:
        wanted: dict[SeriesKey, Usual] = {}
        for key, usual in (pair for arrival in arrivals for pair in arrival.usual()):
            if key not in wanted or wanted[key].unit is None:
                wanted[key] = usual
        series = _series(cursor, wanted)
        origins = _origins(cursor, {a.origin for a in arrivals})
        together: dict[ChunkKey, chunks.Samples] = {}
        for arrival in arrivals:
            source = origins[arrival.origin]
            for key, day, samples in arrival.samples(series, source):
                place = (series[key].id, day)
                held = together.get(place)
                together[place] = samples if held is None else chunks.merged(held, samples)
        _write(cursor, together, {usual.id: usual.divisor for usual in series.values()})


def _write(
    cursor: CursorWrapper, together: Mapping[ChunkKey, chunks.Samples], divisors: dict[int, int]
) -> None:
    rows = {}
    finer: dict[int, int] = {}
    for series, day in sorted(together):
        row = chunks.encoded(together[series, day], divisors[series])
        rows[series, day] = row
        if row["divisor"] != divisors[series]:
            finer[series] = divisors[series] = row["divisor"]
    _note_divisors(cursor, finer)
    by_month = sorted(rows, key=lambda key: (month_of(_date(key[1])), key))
    ensure(cursor, {month_of(_date(day)) for _, day in rows})
    for month, keys in groupby(by_month, key=lambda key: month_of(_date(key[1]))):
        here = list(keys)
        table = f'"{table_of(month)}"'
        cursor.execute(_APPEND.format(table=table), _sent(here, rows))
        taken = {(series, (day - _EPOCH).days) for series, day in cursor.fetchall()}
        left = [key for key in here if key not in taken]
        if left:
            _merge(cursor, table, left, together, divisors)


def _merge(
    cursor: CursorWrapper,
    table: str,
    keys: list[ChunkKey],
    together: Mapping[ChunkKey, chunks.Samples],
    divisors: dict[int, int],
) -> None:
    cursor.execute(
        _READ.format(table=table), [[s for s, _ in keys], [_date(day) for _, day in keys]]
    )
    names = [column.name for column in cursor.description]
    rows: dict[ChunkKey, chunks.Row] = {}
    for values in cursor.fetchall():
        held = dict(zip(names, values, strict=True))
        if isinstance(held["extras"], str):
            held["extras"] = json.loads(held["extras"])
        key = (held["series_id"], (held["day"] - _EPOCH).days)
        before = chunks.decoded(held)
        after = chunks.merged(before, together[key])
        if after != before:
            divisor = chunks.finer(held["divisor"], divisors[key[0]])
            rows[key] = chunks.encoded(after, divisor)
    if rows:
        cursor.execute(_REWRITE.format(table=table), _sent(sorted(rows), rows))


def _sent(keys: list[ChunkKey], rows: Mapping[ChunkKey, chunks.Row]) -> list[Any]:
    """Parameters of `_ROWS`."""
    sent: list[Any] = [[series for series, _ in keys], [_date(day) for _, day in keys]]
    here = [rows[key] for key in keys]
    sent += ([row[column] for row in here] for column in _WHOLE)
    sent += (_arrays(row[column] for row in here) for column in _ARRAYS)
    sent.append([row["extras"] and json.dumps(row["extras"]) for row in here])
    return sent


def _arrays(columns: Iterable[Iterable[Any] | None]) -> str:
    """Several arrays as the text of one array."""
    texts = map(chunks.array, columns)
    return "{" + ",".join("NULL" if text is None else f'"{text}"' for text in texts) + "}"


def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)


# Series and sources


def _series(cursor: CursorWrapper, wanted: Mapping[SeriesKey, Usual]) -> dict[SeriesKey, Usual]:
    """Ids and habits of these series, made where they are new."""
    keys = sorted(wanted, key=lambda key: (key[0].int, key[1:]))
    found = _known_series(cursor, keys)
    new = [key for key in keys if key not in found]
    if new:
        cursor.execute(
            "INSERT INTO wearables_series"
            " (user_id, resource, provider, source_type, kind, unit, usual_type, divisor)"
            " SELECT came.*, 1 FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[],"
            " %s::text[], %s::text[], %s::text[]) AS came ON CONFLICT DO NOTHING",
            [
                *_columns_of(new),
                [wanted[key].unit for key in new],
                [wanted[key].type for key in new],
            ],
        )
        found.update(_known_series(cursor, new))
    if bare := [key for key in keys if found[key].unit is None and wanted[key].unit]:
        _note_units(cursor, sorted((found[key].id, wanted[key].unit) for key in bare))
        found.update(_known_series(cursor, bare))
    return found


def _note_units(cursor: CursorWrapper, units: list[tuple[int, str | None]]) -> None:
    """Series that had no unit yet get that of the first sample that has one."""
    ids = [id for id, _ in units]
    cursor.execute(
        "SELECT 1 FROM wearables_series WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [ids]
    )
    cursor.execute(
        "UPDATE wearables_series AS held SET unit = came.unit"
        " FROM unnest(%s::integer[], %s::text[]) AS came(id, unit)"
        " WHERE held.id = came.id AND held.unit IS NULL",
        [ids, [unit for _, unit in units]],
    )


def _known_series(cursor: CursorWrapper, keys: list[SeriesKey]) -> dict[SeriesKey, Usual]:
    cursor.execute(
        "SELECT user_id, resource, provider, source_type, kind, id, unit, usual_type, divisor"
        " FROM wearables_series JOIN unnest(%s::uuid[], %s::text[], %s::text[], %s::text[],"
        " %s::text[]) AS wanted(user_id, resource, provider, source_type, kind)"
        " USING (user_id, resource, provider, source_type, kind)",
        _columns_of(keys),
    )
    return {tuple(row[:5]): Usual(*row[5:]) for row in cursor.fetchall()}


def _columns_of(keys: list[SeriesKey]) -> list[list[Any]]:
    users, *words = (list(column) for column in zip(*keys, strict=True))
    return [[user.hex if isinstance(user, UUID) else user for user in users], *words]


def _note_divisors(cursor: CursorWrapper, finer: Mapping[int, int]) -> None:
    if finer:
        ids = sorted(finer)
        cursor.execute(
            "SELECT 1 FROM wearables_series WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [ids]
        )
        cursor.execute(
            "UPDATE wearables_series AS held SET divisor = came.divisor"
            " FROM unnest(%s::integer[], %s::integer[]) AS came(id, divisor)"
            " WHERE held.id = came.id AND (held.divisor < came.divisor OR came.divisor = 0)"
            " AND held.divisor <> 0",
            [ids, [finer[one] for one in ids]],
        )


def _origins(cursor: CursorWrapper, wanted: set[Origin]) -> dict[Origin, int]:
    keys = sorted(wanted)
    found = _known_origins(cursor, keys)
    new = [key for key in keys if key not in found]
    if new:
        cursor.execute(
            "INSERT INTO wearables_source (provider, type, app_id, device_id, sport, workout_id)"
            " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[],"
            " %s::text[]) ON CONFLICT DO NOTHING",
            [list(column) for column in zip(*new, strict=True)],
        )
        found.update(_known_origins(cursor, new))
    return found


def _known_origins(cursor: CursorWrapper, keys: list[Origin]) -> dict[Origin, int]:
    cursor.execute(
        "SELECT provider, type, app_id, device_id, sport, workout_id, id FROM wearables_source"
        " JOIN unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"
        " AS wanted(provider, type, app_id, device_id, sport, workout_id)"
        " USING (provider, type, app_id, device_id, sport, workout_id)",
        [list(column) for column in zip(*keys, strict=True)],
    )
    return {Origin(*row[:6]): row[6] for row in cursor.fetchall()}
