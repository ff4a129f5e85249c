"""The order list: 19 parameters as SQL (specification, Orders; orders.md 5).

Orders are numbered per team without gaps in the order they were made (`seq`), so a list bounded
by creation dates only is a range of numbers: its total and any page of it cost the same at any
depth. A bound on `updated_at` adds one stretch of older orders that still changed after it.
Every other filter is an ordinary query: count, then one page of keys, then the records.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection

from sandbox.api import vocabulary
from sandbox.api.paging import PAGE, SIZE
from sandbox.api.params import END_OF_DAY, START_OF_DAY, Flag, Param, Text, Uuid, parse_day

PARAMS = (
    Param(
        "search_input",
        Text(),
        note="order id, user id, patient name, date of birth or recipient name",
    ),
    Param("start_date", START_OF_DAY, note="created at or after"),
    Param("end_date", END_OF_DAY, note="created at or before"),
    Param("updated_start_date", START_OF_DAY, note="updated at or after"),
    Param("updated_end_date", START_OF_DAY, note="updated at or before"),
    Param("status", vocabulary.LOW_LEVEL_STATUSES, many=True, note="current low-level status"),
    Param("order_key", vocabulary.ORDER_KEYS, note="default created_at"),
    Param("order_direction", vocabulary.DIRECTIONS, note="default desc"),
    Param("order_type", vocabulary.METHODS, many=True),
    Param("is_critical", Flag()),
    Param("interpretation", vocabulary.INTERPRETATIONS),
    Param(
        "order_activation_types",
        vocabulary.ACTIVATION_TYPES,
        many=True,
        note="current: no or past activate_by; scheduled: a future one",
    ),
    Param("user_id", Uuid()),
    Param("patient_name", Text()),
    Param("shipping_recipient_name", Text()),
    Param("order_ids", Uuid(), many=True),
    Param("order_transaction_id", Uuid()),
    PAGE,
    SIZE,
)

_RANGE_FILTERS = frozenset({"start_date", "end_date", "updated_start_date"})
_NOT_FILTERS = frozenset({"order_key", "order_direction", "page", "size"})
_COLUMNS = "o.id, o.fixed_part, o.moving_part, o.has_requisition, o.lab_test_id"


@dataclass(frozen=True, slots=True)
class OrderRow:
    """The columns from which an order record is made."""

    id: uuid.UUID
    fixed_part: str
    moving_part: str
    has_requisition: bool
    lab_test_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class OrderPage:
    """One page: its rows in order, and how many orders match in all."""

    rows: list[OrderRow]
    total: int


def search(team: uuid.UUID, api_request: Mapping[str, Any], today: dt.date) -> OrderPage:
    """Return the page of the team's orders that the parameters describe. `today` is the UTC date
    of the world."""
    used = {
        name
        for name, value in api_request.items()
        if name not in _NOT_FILTERS and value is not None and value != "" and value != []
    }
    if used <= _RANGE_FILTERS and api_request["order_key"] in (None, "created_at"):
        return _by_range(team, api_request)
    return _by_query(team, api_request, today)


def _rows(sql: str, values: list[Any]) -> list[OrderRow]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return [OrderRow(*row) for row in cursor.fetchall()]


def _value(sql: str, values: list[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()[0]


# Bounded by dates only


@dataclass(frozen=True, slots=True)
class _NumberRange:
    """Orders `first` to `last` by number, both included; only those changed since
    `changed_since`."""

    first: int
    last: int
    count: int
    changed_since: dt.datetime | None = None


_FROM = (
    "(SELECT seq FROM sandbox_order WHERE team_id = t.id AND created_at >= %s"
    " ORDER BY created_at, seq LIMIT 1)"
)
_UNTIL = (
    "(SELECT seq FROM sandbox_order WHERE team_id = t.id AND created_at <= %s"
    " ORDER BY created_at DESC, seq DESC LIMIT 1)"
)


def _bounds(
    team: uuid.UUID, *dates: tuple[str, dt.datetime | None]
) -> tuple[int, list[int | None]]:
    """The team's last number, and for each (subquery, date) the number found; one statement."""
    api_request = [(sql, date) for sql, date in dates if date is not None]
    columns = "".join(f", {sql}" for sql, _ in api_request)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT t.order_count{columns} FROM sandbox_team t WHERE t.id = %s",
            [*(date for _, date in api_request), team],
        )
        row = cursor.fetchone() or (0, *(None for _ in api_request))
    found = iter(row[1:])
    return row[0], [next(found) if date is not None else None for _, date in dates]


def _number_ranges(team: uuid.UUID, api_request: Mapping[str, Any]) -> list[_NumberRange]:
    """Return the one or two ranges that contain every match, newest orders first."""
    start, end, since = (
        api_request["start_date"],
        api_request["end_date"],
        api_request["updated_start_date"],
    )
    upwards = api_request["order_direction"] == "asc"
    count, (first, last, fresh) = _bounds(team, (_FROM, start), (_UNTIL, end), (_FROM, since))
    low = first if first is not None else (1 if start is None else count + 1)
    high = last if last is not None else (count if end is None else 0)
    if since is None:
        return [_NumberRange(low, high, max(0, high - low + 1))]
    # Whatever was created since then was also changed since then.
    edge = fresh if fresh is not None else count + 1
    first_newer = max(low, edge)
    newer = _NumberRange(first_newer, high, max(0, high - first_newer + 1))
    newest = min(high, edge - 1)
    if low > newest:
        older = 0
    elif low == 1 and newest == edge - 1:
        # Upwards the older stretch comes first and its count places every page; downwards it
        # only counts for the total until a page reaches its end.
        older = 0 if upwards else _recent_count(team, since, newest, count)
        if upwards or api_request["page"] * api_request["size"] > newer.count + older:
            older = _count_older(team, since, newest, count)
    else:
        older = _value(
            "SELECT count(*) FROM sandbox_order"
            " WHERE team_id = %s AND seq BETWEEN %s AND %s AND updated_at >= %s",
            [team, low, newest, since],
        )
    return [newer, _NumberRange(low, newest, older, since)]


def _count_older(team: uuid.UUID, since: dt.datetime, last: int, count: int) -> int:
    """Of the team's orders 1 to `last`, all made before `since`, those changed after it.

    The index on `updated_at` alone answers, counted from whichever end is nearer.
    """
    if last <= count // 2:
        unchanged = _value(
            "SELECT count(*) FROM sandbox_order WHERE team_id = %s AND updated_at < %s",
            [team, since],
        )
        return int(last - unchanged)
    changed = _value(
        "SELECT count(*) FROM sandbox_order WHERE team_id = %s AND updated_at >= %s",
        [team, since],
    )
    return int(changed - (count - last))


# Counting half of a million orders takes as long as the rest of the answer several times over.
_LONG_LIST = 200_000
_MEMORY_SECONDS = 5.0
_memory: dict[tuple[uuid.UUID, dt.datetime], tuple[float, int]] = {}


def _recent_count(team: uuid.UUID, since: dt.datetime, last: int, count: int) -> int:
    """`_count_older`; of a long list one that may be five seconds old."""
    if count < _LONG_LIST:
        return _count_older(team, since, last, count)
    now = time.monotonic()
    known = _memory.get((team, since))
    if known is not None and now - known[0] < _MEMORY_SECONDS:
        return known[1]
    if len(_memory) > 100:
        _memory.clear()
    found = _count_older(team, since, last, count)
    _memory[team, since] = (now, found)
    return found


def _by_range(team: uuid.UUID, api_request: Mapping[str, Any]) -> OrderPage:
    stretches = _number_ranges(team, api_request)
    upwards = api_request["order_direction"] == "asc"
    if upwards:
        stretches.reverse()
    skip, wanted = (api_request["page"] - 1) * api_request["size"], api_request["size"]
    rows: list[OrderRow] = []
    for stretch in stretches:
        if wanted and skip < stretch.count:
            part = _read(team, stretch, skip, wanted, upwards=upwards)
            rows += part
            wanted -= len(part)
        skip = max(0, skip - stretch.count)
    return OrderPage(rows, sum(stretch.count for stretch in stretches))


def _read(
    team: uuid.UUID, stretch: _NumberRange, skip: int, wanted: int, *, upwards: bool
) -> list[OrderRow]:
    if stretch.changed_since is not None:
        # Matches crowd at the newest end: both directions are read from there.
        if upwards:
            wanted = min(wanted, stretch.count - skip)
            skip = stretch.count - skip - wanted
        rows = _page(
            "o.team_id = %s AND o.seq BETWEEN %s AND %s AND o.updated_at >= %s",
            [team, stretch.first, stretch.last, stretch.changed_since],
            "o.seq DESC",
            skip,
            wanted,
        )
        return rows[::-1] if upwards else rows
    direction = "ASC" if upwards else "DESC"
    low, high = stretch.first, stretch.last
    if upwards:
        low += skip
        high = min(high, low + wanted - 1)
    else:
        high -= skip
        low = max(low, high - wanted + 1)
    return _rows(
        f"SELECT {_COLUMNS} FROM sandbox_order o"
        f" WHERE o.team_id = %s AND o.seq BETWEEN %s AND %s ORDER BY o.seq {direction}",
        [team, low, high],
    )


def _page(where: str, values: list[Any], order: str, skip: int, wanted: int) -> list[OrderRow]:
    """Keys first, so that nothing wide is sorted or skipped; then the records of the page."""
    return _rows(
        f"SELECT {_COLUMNS} FROM sandbox_order o JOIN (SELECT o.number FROM sandbox_order o"
        f" WHERE {where} ORDER BY {order} LIMIT %s OFFSET %s) k ON k.number = o.number"
        f" ORDER BY {order}",
        [*values, wanted, skip],
    )


# Everything else


def _by_query(team: uuid.UUID, api_request: Mapping[str, Any], today: dt.date) -> OrderPage:
    where, values = conditions(team, api_request, today)
    total = _value(f"SELECT count(*) FROM sandbox_order o WHERE {where}", values)
    skip = (api_request["page"] - 1) * api_request["size"]
    rows: list[OrderRow] = []
    if skip < total:
        rows = _page(where, values, _order(api_request), skip, api_request["size"])
    return OrderPage(rows, total)


_ORDER_COLUMNS = {"patient_name": "o.patient_name", "last_status": "o.low_level_status"}


def _order(api_request: Mapping[str, Any]) -> str:
    direction = "ASC" if api_request["order_direction"] == "asc" else "DESC"
    column = _ORDER_COLUMNS.get(api_request["order_key"] or "")
    first = f"{column} {direction}, " if column else ""
    return f"{first}o.seq {direction}"


def _like(text: str) -> str:
    """The pattern of a case-insensitive part."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


# Parameter: condition, with the value in it once.
_PLAIN = {
    "start_date": "o.created_at >= %s",
    "end_date": "o.created_at <= %s",
    "updated_start_date": "o.updated_at >= %s",
    "updated_end_date": "o.updated_at <= %s",
    "status": "o.low_level_status = ANY(%s)",
    "order_type": "o.method = ANY(%s)",
    "interpretation": "o.interpretation = %s",
    "user_id": "o.user_id = %s",
    "order_ids": "o.id = ANY(%s)",
    "order_transaction_id": "o.transaction_id = %s",
}
_PARTS = {
    "patient_name": "o.patient_name ILIKE %s",
    "shipping_recipient_name": "o.recipient_name ILIKE %s",
}


def conditions(
    team: uuid.UUID, api_request: Mapping[str, Any], today: dt.date
) -> tuple[str, list[Any]]:
    """The WHERE clause over `sandbox_order o` and its values."""
    clauses: list[str] = ["o.team_id = %s"]
    values: list[Any] = [team]
    for name, clause in _PLAIN.items():
        if api_request[name] is not None:
            clauses.append(clause)
            values.append(api_request[name])
    for name, clause in _PARTS.items():
        if api_request[name]:
            clauses.append(clause)
            values.append(_like(api_request[name]))
    if api_request["is_critical"] is not None:
        test = "=" if api_request["is_critical"] else "IS DISTINCT FROM"
        clauses.append(f"o.interpretation {test} 'critical'")
    activation = set(api_request["order_activation_types"] or ())
    if activation == {"current"}:
        clauses.append("(o.activate_by IS NULL OR o.activate_by <= %s)")
        values.append(today)
    elif activation == {"scheduled"}:
        clauses.append("o.activate_by > %s")
        values.append(today)
    if api_request["search_input"]:
        clause, given = _search_clause(api_request["search_input"].strip())
        clauses.append(clause)
        values += given
    return " AND ".join(clauses), values


def _search_clause(text: str) -> tuple[str, list[Any]]:
    try:
        found = uuid.UUID(text)
    except ValueError:
        pass
    else:
        return "(o.id = %s OR o.user_id = %s)", [found, found]
    day = parse_day(text)
    if day is not None:
        return "o.patient_dob = %s", [day]
    return "(o.patient_name ILIKE %s OR o.recipient_name ILIKE %s)", [_like(text), _like(text)]
