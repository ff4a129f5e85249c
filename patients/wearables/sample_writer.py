"""Write samples into their table: by few statements, exactly, safe for several workers at once.

A batch is first grouped by series and day. Then one statement per month inserts new rows and
appends to rows that have only older samples, which is the usual case. The other rows are locked by
then. They are read, merged sample by sample, where the one received later wins, and written back. A
merge that changes nothing writes nothing. Every worker locks rows in the order of month, series and
day.
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
from patients.wearables.arrivals import SampleBatch, SampleSource, SeriesDefaults, SeriesKey
from patients.wearables.partitions import ensure, month_of, table_name

MAX_TAIL: Final = 128
"""Most samples in the tail. A row with this many still fits its page uncompressed."""

_EPOCH: Final = date(1970, 1, 1)
ChunkKey: TypeAlias = tuple[int, int]
"""Series, and day since 1970."""

_SCALARS: Final = {
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
_COLUMNS: Final = (*_SCALARS, *_ARRAYS, "extras")
_TAILS: Final = ("tail_seconds", "tail_scaled", "tail_wide", "tail_numbers")
_ROWS: Final = (
    "unnest(%s::integer[], %s::date[], "
    + ", ".join(f"%s::{kind}[]" for kind in _SCALARS.values())
    + ", "
    + ", ".join("%s::text[]" for _ in _ARRAYS)
    + f", %s::jsonb[]) AS sent(series_id, day, {', '.join(_COLUMNS)})"
)
_AS_SENT: Final = ", ".join(
    f"sent.{column}::{_ARRAYS[column]}" if column in _ARRAYS else f"sent.{column}"
    for column in _COLUMNS
)
_SENT_NUMBERS: Final = (
    "coalesce(excluded.numbers, array_fill(excluded.number, ARRAY[cardinality(excluded.seconds)]))"
)
_FITS: Final = (
    f"coalesce(cardinality(c.tail_seconds), 0) + cardinality(excluded.seconds) <= {MAX_TAIL}"
)


def _appended(column: str) -> str:
    """Return assignments that append to the tail, or to the long array if the tail is full."""
    stored, received = f"c.{column}", f"excluded.{column}"
    if column == "numbers":
        stored = f"coalesce({stored}, array_fill(c.number, ARRAY[cardinality(c.seconds)]))"
        received = _SENT_NUMBERS
    tail = f"tail_{column}"
    return (
        f"{column} = CASE WHEN {_FITS} THEN c.{column} ELSE {stored} || c.{tail} || {received} END,"
        f" {tail} = CASE WHEN {_FITS} THEN c.{tail} || {received} END"
    )


_APPEND: Final = (
    "INSERT INTO {table} AS c (series_id, day, " + ", ".join(_COLUMNS) + ")"
    f" SELECT sent.series_id, sent.day, {_AS_SENT} FROM {_ROWS} ORDER BY 1, 2"
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
    " JOIN unnest(%s::integer[], %s::date[]) AS chunk_key(series_id, day) USING (series_id, day)"
    " ORDER BY 1, 2 FOR UPDATE OF {table}"
)
_REWRITE: Final = (
    "UPDATE {table} AS c SET ("
    + ", ".join(_COLUMNS)
    + f") = ROW({_AS_SENT}), "
    + ", ".join(f"{column} = NULL" for column in _TAILS)
    + f" FROM {_ROWS} WHERE c.series_id = sent.series_id AND c.day = sent.day"
)


def store(batches: Sequence[SampleBatch]) -> None:
    """Store the samples of these batches, inside the caller's transaction.

    Batches may come in any order and repeatedly: the receipt numbers decide.
    """
    batches = [batch for batch in batches if batch.data]
    if not batches:
        return
    with connection.cursor() as cursor:
        defaults_by_key: dict[SeriesKey, SeriesDefaults] = {}
        for batch in batches:
            for key, defaults in batch.series_defaults():
                if key not in defaults_by_key or defaults_by_key[key].unit is None:
                    defaults_by_key[key] = defaults
        series = _get_or_create_series(cursor, defaults_by_key)
        sources = _get_or_create_sources(cursor, {batch.origin for batch in batches})
        by_chunk: dict[ChunkKey, chunks.ChunkSamples] = {}
        for batch in batches:
            source = sources[batch.origin]
            for key, day, samples in batch.samples(series, source):
                chunk = (series[key].id, day)
                earlier = by_chunk.get(chunk)
                by_chunk[chunk] = samples if earlier is None else chunks.merged(earlier, samples)
        _write(cursor, by_chunk, {row.id: row.divisor for row in series.values()})


def _write(
    cursor: CursorWrapper,
    by_chunk: Mapping[ChunkKey, chunks.ChunkSamples],
    divisors: dict[int, int],
) -> None:
    rows = {}
    finer: dict[int, int] = {}
    for series, day in sorted(by_chunk):
        row = chunks.encoded(by_chunk[series, day], divisors[series])
        rows[series, day] = row
        if row["divisor"] != divisors[series]:
            finer[series] = divisors[series] = row["divisor"]
    _update_divisors(cursor, finer)
    by_month = sorted(rows, key=lambda key: (month_of(_date(key[1])), key))
    ensure(cursor, {month_of(_date(day)) for _, day in rows})
    for month, keys in groupby(by_month, key=lambda key: month_of(_date(key[1]))):
        of_month = list(keys)
        table = f'"{table_name(month)}"'
        cursor.execute(_APPEND.format(table=table), _row_parameters(of_month, rows))
        written = {(series_id, (day - _EPOCH).days) for series_id, day in cursor.fetchall()}
        if unwritten := [key for key in of_month if key not in written]:
            _merge(cursor, table, unwritten, by_chunk, divisors)


def _merge(
    cursor: CursorWrapper,
    table: str,
    keys: list[ChunkKey],
    by_chunk: Mapping[ChunkKey, chunks.ChunkSamples],
    divisors: dict[int, int],
) -> None:
    cursor.execute(
        _READ.format(table=table), [[s for s, _ in keys], [_date(day) for _, day in keys]]
    )
    names = [column.name for column in cursor.description]
    rows: dict[ChunkKey, chunks.Row] = {}
    for values in cursor.fetchall():
        stored = dict(zip(names, values, strict=True))
        if isinstance(stored["extras"], str):
            stored["extras"] = json.loads(stored["extras"])
        key = (stored["series_id"], (stored["day"] - _EPOCH).days)
        before = chunks.decoded(stored)
        after = chunks.merged(before, by_chunk[key])
        if after != before:
            divisor = chunks.finer(stored["divisor"], divisors[key[0]])
            rows[key] = chunks.encoded(after, divisor)
    if rows:
        cursor.execute(_REWRITE.format(table=table), _row_parameters(sorted(rows), rows))


def _row_parameters(keys: list[ChunkKey], rows: Mapping[ChunkKey, chunks.Row]) -> list[Any]:
    """Return the parameters of `_ROWS`."""
    values: list[Any] = [[series for series, _ in keys], [_date(day) for _, day in keys]]
    selected = [rows[key] for key in keys]
    values += ([row[column] for row in selected] for column in _SCALARS)
    values += (_arrays(row[column] for row in selected) for column in _ARRAYS)
    values.append([row["extras"] and json.dumps(row["extras"]) for row in selected])
    return values


def _arrays(columns: Iterable[Iterable[object] | None]) -> str:
    """Return several arrays as the text of one array."""
    texts = map(chunks.array, columns)
    return "{" + ",".join("NULL" if text is None else f'"{text}"' for text in texts) + "}"


def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)


# Series and sources


def _get_or_create_series(
    cursor: CursorWrapper, defaults: Mapping[SeriesKey, SeriesDefaults]
) -> dict[SeriesKey, SeriesDefaults]:
    """Return ids and defaults of these series, and create the new ones."""
    keys = sorted(defaults, key=lambda key: (key[0].int, key[1:]))
    series = _stored_series(cursor, keys)
    new = [key for key in keys if key not in series]
    if new:
        cursor.execute(
            "INSERT INTO wearables_series"
            " (user_id, resource, provider, source_type, kind, unit, usual_type, divisor)"
            " SELECT new.*, 1 FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[],"
            " %s::text[], %s::text[], %s::text[]) AS new ON CONFLICT DO NOTHING",
            [
                *_columns_of(new),
                [defaults[key].unit for key in new],
                [defaults[key].type for key in new],
            ],
        )
        series.update(_stored_series(cursor, new))
    if unitless := [key for key in keys if series[key].unit is None and defaults[key].unit]:
        _set_units(cursor, sorted((series[key].id, defaults[key].unit) for key in unitless))
        series.update(_stored_series(cursor, unitless))
    return series


def _set_units(cursor: CursorWrapper, units: list[tuple[int, str | None]]) -> None:
    """Set the units of series that have none yet."""
    ids = [id for id, _ in units]
    cursor.execute(
        "SELECT 1 FROM wearables_series WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [ids]
    )
    cursor.execute(
        "UPDATE wearables_series AS series SET unit = new.unit"
        " FROM unnest(%s::integer[], %s::text[]) AS new(id, unit)"
        " WHERE series.id = new.id AND series.unit IS NULL",
        [ids, [unit for _, unit in units]],
    )


def _stored_series(cursor: CursorWrapper, keys: list[SeriesKey]) -> dict[SeriesKey, SeriesDefaults]:
    cursor.execute(
        "SELECT user_id, resource, provider, source_type, kind, id, unit, usual_type, divisor"
        " FROM wearables_series JOIN unnest(%s::uuid[], %s::text[], %s::text[], %s::text[],"
        " %s::text[]) AS asked(user_id, resource, provider, source_type, kind)"
        " USING (user_id, resource, provider, source_type, kind)",
        _columns_of(keys),
    )
    return {tuple(row[:5]): SeriesDefaults(*row[5:]) for row in cursor.fetchall()}


def _columns_of(keys: list[SeriesKey]) -> list[list[Any]]:
    users, *words = (list(column) for column in zip(*keys, strict=True))
    return [[user.hex if isinstance(user, UUID) else user for user in users], *words]


def _update_divisors(cursor: CursorWrapper, finer: Mapping[int, int]) -> None:
    if finer:
        ids = sorted(finer)
        cursor.execute(
            "SELECT 1 FROM wearables_series WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [ids]
        )
        cursor.execute(
            "UPDATE wearables_series AS series SET divisor = new.divisor"
            " FROM unnest(%s::integer[], %s::integer[]) AS new(id, divisor)"
            " WHERE series.id = new.id AND (series.divisor < new.divisor OR new.divisor = 0)"
            " AND series.divisor <> 0",
            [ids, [finer[key] for key in ids]],
        )


def _get_or_create_sources(
    cursor: CursorWrapper, origins: set[SampleSource]
) -> dict[SampleSource, int]:
    keys = sorted(origins)
    sources = _stored_sources(cursor, keys)
    new = [key for key in keys if key not in sources]
    if new:
        cursor.execute(
            "INSERT INTO wearables_source (provider, type, app_id, device_id, sport, workout_id)"
            " SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[],"
            " %s::text[]) ON CONFLICT DO NOTHING",
            [list(column) for column in zip(*new, strict=True)],
        )
        sources.update(_stored_sources(cursor, new))
    return sources


def _stored_sources(cursor: CursorWrapper, keys: list[SampleSource]) -> dict[SampleSource, int]:
    cursor.execute(
        "SELECT provider, type, app_id, device_id, sport, workout_id, id FROM wearables_source"
        " JOIN unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"
        " AS asked(provider, type, app_id, device_id, sport, workout_id)"
        " USING (provider, type, app_id, device_id, sport, workout_id)",
        [list(column) for column in zip(*keys, strict=True)],
    )
    return {SampleSource(*row[:6]): row[6] for row in cursor.fetchall()}
