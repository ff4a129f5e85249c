"""Kinds of values the interface sends, as hypothesis strategies.

Each strategy draws a JSON value together with what the client must read from it. ``kind?`` in a
name marks a field that may be absent or null; ``a|b`` is one field with two spellings, of which
one is drawn.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

Drawn = st.SearchStrategy[tuple[Any, Any]]


class Anything:
    """Expected value of a field the client need not interpret."""


ANY = Anything()


@dataclass
class Fields:
    """Expected attributes of a record."""

    values: dict[str, Any]


def storable(value: str) -> str:
    """NUL, which no database has in a text, and what turns text around are read as U+FFFD."""
    return re.sub("[\x00\u202d\u202e]", "\ufffd", value)


def same(strategy: st.SearchStrategy[Any]) -> Drawn:
    return strategy.map(lambda value: (value, value))


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
text = words.map(lambda value: (value, storable(value)))
number = same(st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(0, 10**6))
flag = same(st.booleans())
uid = st.uuids().map(lambda value: (str(value), value))
loose = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
).map(lambda value: (value, ANY))


def choice(*known: str) -> Drawn:
    """An open enumeration: a known value, or one nobody has heard of."""
    return (st.sampled_from(known) | words.map(lambda word: f"new_{word}")).map(
        lambda value: (value, storable(value))
    )


@st.composite
def _integer(draw: st.DrawFn) -> tuple[Any, Any]:
    value = draw(st.integers(-(2**53), 2**63 - 1))
    return draw(st.sampled_from([value, value, value, str(value)])), value


@st.composite
def _instant(draw: st.DrawFn) -> tuple[Any, Any]:
    """Naive, UTC or with an offset; the first means UTC."""
    value = draw(st.datetimes(datetime(1900, 1, 2), datetime(2200, 1, 1)))
    zone = draw(st.sampled_from(["", "Z", "+00:00", "-05:00"]))
    offset = timezone(timedelta(hours=-5)) if zone == "-05:00" else UTC
    return value.isoformat() + zone, value.replace(tzinfo=offset)


@st.composite
def _day(draw: st.DrawFn) -> tuple[Any, Any]:
    """A date, or a date-time of which only the date counts."""
    value = draw(st.dates(date(1900, 1, 1)))
    return value.isoformat() + draw(st.sampled_from(["", "T00:00:00", "T00:00:00Z"])), value


@st.composite
def _number_or_text(draw: st.DrawFn) -> tuple[Any, Any]:
    value = draw(st.integers(0, 130))
    return draw(st.sampled_from([value, str(value)])), str(value)


integer = _integer()
instant = _instant()
day = _day()
number_or_text = _number_or_text()


def many(inner: Drawn, most: int = 2) -> Drawn:
    return st.lists(inner, max_size=most).map(
        lambda items: ([one[0] for one in items], [one[1] for one in items])
    )


def mapping(inner: Drawn) -> Drawn:
    return st.dictionaries(words, inner, max_size=2).map(
        lambda items: (
            {key: one[0] for key, one in items.items()},
            {storable(key): one[1] for key, one in items.items()},
        )
    )


@st.composite
def record(draw: st.DrawFn, fields: dict[str, Drawn]) -> tuple[Any, Any]:
    """An object with some optional fields missing or null, and some fields nobody knows."""
    sent: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    # One draw decides for all fields: a draw each would make large records slow.
    fate = draw(st.integers(0, 4 ** len(fields) - 1))
    for name, drawn in fields.items():
        optional = name.endswith("?")
        spellings = name.rstrip("?").split("|")
        fate, here = divmod(fate, 4)
        attributes = [one for one in spellings if one.isidentifier()]
        if optional and here < 2:
            if here == 0:
                sent[spellings[0]] = None
            continue
        spelling = spellings[here % len(spellings)]
        sent[spelling], value = draw(drawn)
        for attribute in attributes:
            expected[attribute] = value
    for name in draw(st.lists(words, max_size=2)):
        sent[f"x_{name}"] = draw(loose)[0]
    return sent, Fields(expected)


def check(read: Any, expected: Any, path: str = "$") -> None:
    """Everything that was sent is what the client reads."""
    if expected is ANY:
        return
    if isinstance(expected, Fields):
        for name, value in expected.values.items():
            check(getattr(read, name), value, f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(read) == len(expected), path
        for i, value in enumerate(expected):
            check(read[i], value, f"{path}[{i}]")
    elif isinstance(expected, dict):
        assert read.keys() == expected.keys(), path
        for key, value in expected.items():
            check(read[key], value, f"{path}[...]")
    else:
        assert read == expected, path
        if isinstance(expected, datetime):
            assert read.tzinfo is not None, path
        if isinstance(expected, uuid.UUID | str | bool):
            assert type(read) is type(expected), path


def without(expected: Fields, name: str) -> Fields:
    expected.values.pop(name, None)
    return expected
