"""Samples as they are stored: one row per series and UTC day, its samples as parallel arrays.

- `seconds` are counted from the start of the day and ascend. `micros` has the microseconds if any
  sample has some, else it is null.
- A value is `scaled` divided by the `divisor` of the row, a power of ten that gives back exactly
  the number that was sent. If no power of ten does, the values are in `wide` and the divisor is 0.
- `zone` (seconds east of UTC), `length` (seconds, of intervals), `source` and `number` (receipt
  number of the event) are single values while all samples share them, and arrays otherwise.
- The `tail` columns hold the newest samples until there are enough to rewrite the long arrays,
  which stay untouched in TOAST storage until then. Samples of the tail are later than all others.
- Rare values (another type or unit than the series has, text, the second value of a blood pressure)
  are in `extras`, by the microsecond of the day of the sample.

This module encodes and decodes one row. `sample_writer.py` writes rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import lt, ne
from typing import Any, Final, TypeAlias

SECOND: Final = 1_000_000
BLOCK: Final = 1 << 31
WIDE: Final = 0
FINEST: Final = 1_000_000
_LARGEST: Final = (1 << 31) - 1

Extra: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class ChunkSamples:
    """Samples of one series and day, ordered by `at` (microseconds into the UTC day)."""

    at: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    zones: list[int | None] = field(default_factory=list)
    lengths: list[int | None] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    extras: dict[int, Extra] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at)

    def between(self, begin: int, end: int) -> ChunkSamples:
        """Return the samples from index `begin` to `end`, without extras."""
        return _of_columns((column[begin:end] for column in self.columns()), {})

    def columns(self) -> tuple[list[Any], ...]:
        return self.at, self.values, self.numbers, self.zones, self.lengths, self.sources


def in_order(samples: ChunkSamples) -> ChunkSamples:
    """Return the samples in order of time; of several at one time the last one."""
    if all(map(lt, samples.at, samples.at[1:])):
        return samples
    rows = dict(zip(samples.at, zip(*samples.columns(), strict=True), strict=True))
    return _of_rows([rows[at] for at in sorted(rows)], samples.extras)


def merged(old: ChunkSamples, new: ChunkSamples) -> ChunkSamples:
    """Merge samples. Of two samples at one time, the one received later stays."""
    if not old.at:
        return new
    if not new.at:
        return old
    if old.at[-1] < new.at[0]:
        both = (first + then for first, then in zip(old.columns(), new.columns(), strict=True))
        return _of_columns(both, {**old.extras, **new.extras})
    rows = dict(zip(old.at, zip(*old.columns(), strict=True), strict=True))
    extras = dict(old.extras)
    for row in zip(*new.columns(), strict=True):
        at, number = row[0], row[2]
        earlier = rows.get(at)
        if earlier is None or earlier[2] <= number:
            rows[at] = row
            extras.pop(at, None)
            if at in new.extras:
                extras[at] = new.extras[at]
    return _of_rows([rows[at] for at in sorted(rows)], extras)


def _of_rows(rows: Sequence[tuple[Any, ...]], extras: dict[int, Extra]) -> ChunkSamples:
    return _of_columns(map(list, zip(*rows, strict=True)), extras)


def _of_columns(columns: Iterable[list[Any]], extras: dict[int, Extra]) -> ChunkSamples:
    at, values, numbers, zones, lengths, sources = columns
    return ChunkSamples(at, values, numbers, zones, lengths, sources, extras)


# One row

Row: TypeAlias = dict[str, Any]


def encoded(samples: ChunkSamples, divisor: int = 1) -> Row:
    """Return the columns of a row without a tail. `divisor` is the smallest divisor to try."""
    row: Row = {
        "first_at": samples.at[0],
        "last_at": samples.at[-1],
        "block": max(samples.numbers) // BLOCK,
        "seconds": [at // SECOND for at in samples.at],
        "micros": [at % SECOND for at in samples.at],
        "extras": {str(at): extra for at, extra in samples.extras.items()} or None,
    }
    if not any(row["micros"]):
        row["micros"] = None
    row["divisor"], row["scaled"], row["wide"] = scaled(samples.values, divisor)
    base = row["block"] * BLOCK
    for single_name, array_name, column in (
        ("number", "numbers", samples.numbers),
        ("zone", "zones", samples.zones),
        ("length", "lengths", samples.lengths),
        ("source", "sources", samples.sources),
    ):
        row[single_name], row[array_name] = column[0], None
        if any(map(ne, column, repeat(column[0]))):
            row[single_name], row[array_name] = None, column
    if row["numbers"] is not None:
        row["numbers"] = [_offset(number, base) for number in samples.numbers]
    else:
        row["number"] = _offset(row["number"], base)
    if row["source"] is None:
        row["source"] = 0
    return row


def _offset(number: int, base: int) -> int:
    """Return the number relative to `base`, at least -BLOCK.

    Larger distances between events do not occur: the older event would no longer be in any inbox.
    """
    return max(number - base, -BLOCK)


def decoded(row: Row) -> ChunkSamples:
    """Return the samples of a row, tail included."""
    main, tail = row["seconds"], row["tail_seconds"] or []
    count, late = len(main), len(tail)
    micros = row["micros"]
    if micros is None:
        at = [second * SECOND for second in main]
    else:
        at = [s * SECOND + m for s, m in zip(main, micros, strict=True)]
    at += [second * SECOND for second in tail]
    base = row["block"] * BLOCK
    numbers = row["numbers"] if row["numbers"] is not None else [row["number"]] * count
    return ChunkSamples(
        at,
        _values(row["divisor"], row["scaled"], row["wide"])
        + _values(row["divisor"], row["tail_scaled"], row["tail_wide"]),
        [base + number for number in (*numbers, *(row["tail_numbers"] or ()))],
        _spread(row["zone"], row["zones"], count, late),
        _spread(row["length"], row["lengths"], count, late),
        _spread(row["source"], row["sources"], count, late),
        {int(at): extra for at, extra in (row["extras"] or {}).items()},
    )


def _spread(single: Any, values: list[Any] | None, count: int, late: int) -> list[Any]:
    # A row with different values has no tail.
    return list(values) if values is not None else [single] * (count + late)


def _values(
    divisor: int, scaled: list[int | None] | None, wide: list[float | None] | None
) -> list[float | None]:
    if divisor == WIDE:
        return list(wide or ())
    return [None if value is None else value / divisor for value in scaled or ()]


def scaled(
    values: Sequence[float | None], coarsest: int = 1
) -> tuple[int, list[int | None] | None, list[float | None] | None]:
    """Return divisor, scaled values and wide values.

    The divisor is the first one that gives back every value exactly.
    """
    present = (
        values if None not in values else list(compress(values, (v is not None for v in values)))
    )
    numbers: list[float] = present  # type: ignore[assignment]
    divisor = coarsest
    if coarsest == WIDE or (numbers and max(map(abs, numbers)) > _LARGEST):
        divisor = 10 * FINEST
    while divisor <= FINEST:
        whole = [round(value * divisor) for value in numbers]
        if [value / divisor for value in whole] == numbers:
            if whole and not -_LARGEST <= min(whole) <= max(whole) <= _LARGEST:
                break
            if len(numbers) == len(values):
                return divisor, whole, None  # type: ignore[return-value]
            rest = iter(whole)
            return divisor, [None if v is None else next(rest) for v in values], None
        divisor *= 10
    return WIDE, None, list(values)


def finer(first: int, second: int) -> int:
    """Return the divisor that fits the values of both."""
    return WIDE if WIDE in (first, second) else max(first, second)


def array(values: Iterable[object] | None) -> str | None:
    """Return an array as PostgreSQL reads it."""
    if values is None:
        return None
    return "{" + ",".join(["NULL" if value is None else repr(value) for value in values]) + "}"
