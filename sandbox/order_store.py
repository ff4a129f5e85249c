"""Read and write order states in the database, in batches."""

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from django.db import connection
from psycopg import Connection

from sandbox.records import moving_part
from sandbox.states import (
    APPOINTMENT_COLUMNS,
    ORDER_COLUMNS,
    SHIPMENT_COLUMNS,
    AppointmentEventState,
    AppointmentState,
    EventState,
    OrderState,
    ShipmentState,
)

APPOINTMENT_TABLE_COLUMNS = ("order_id", *APPOINTMENT_COLUMNS)
SHIPMENT_TABLE_COLUMNS = ("order_id", *SHIPMENT_COLUMNS)
EVENT_COLUMNS = ("id", "order_id", "created_at", "status", "status_detail")
APPOINTMENT_EVENT_COLUMNS = ("appointment_id", "created_at", "status", "data")
# Columns that never change once an order is placed.
FIXED_COLUMNS = {
    "number", "id", "team_id", "seq", "lab_test_id", "lab_account_id", "transaction_id", "origin",
    "parent_id", "method", "registrable", "imported", "created_at", "details_id",
}  # fmt: skip
MOVING_COLUMNS = tuple(name for name in ORDER_COLUMNS if name not in FIXED_COLUMNS)

_ORDER_VALUES: Callable[[OrderState], tuple[Any, ...]] = attrgetter(*ORDER_COLUMNS)
_MOVING_VALUES: Callable[[OrderState], tuple[Any, ...]] = attrgetter(*MOVING_COLUMNS)
_SHIPMENT_VALUES: Callable[[ShipmentState], tuple[Any, ...]] = attrgetter(*SHIPMENT_COLUMNS)


def order_values(order: OrderState) -> tuple[Any, ...]:
    """Values of ORDER_COLUMNS."""
    return _ORDER_VALUES(order)


def appointment_values(number: int, visit: AppointmentState) -> tuple[Any, ...]:
    """Values of APPOINTMENT_TABLE_COLUMNS."""
    data = visit.event_data
    return (
        number,
        *(
            (None if data is None else json.dumps(data))
            if name == "event_data"
            else getattr(visit, name)
            for name in APPOINTMENT_COLUMNS
        ),
    )


def appointment_event_values(key: str, event: AppointmentEventState) -> tuple[Any, ...]:
    """Values of APPOINTMENT_EVENT_COLUMNS."""
    return (key, event.created_at, event.status, event.data and json.dumps(event.data))


def shipment_values(number: int, parcel: ShipmentState) -> tuple[Any, ...]:
    """Values of SHIPMENT_TABLE_COLUMNS."""
    return (number, *_SHIPMENT_VALUES(parcel))


def copy_rows(
    database: Connection[Any], table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> None:
    """COPY rows into a table, in the connection's open transaction."""
    names = ", ".join(columns)
    with database.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
        write = copy.write_row
        for row in rows:
            write(row)


def lock_groups(
    condition: str, parameters: Sequence[Any], limit: int, *, wait: bool = False
) -> list[list[OrderState]]:
    """Lock the transactions that have an order matching the condition; return their orders.

    The row of the transaction is the only lock on its orders. Locked ones are skipped unless
    `wait`. Needs an open database transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.id::text FROM sandbox_ordertransaction t WHERE t.id IN ("
            f"SELECT transaction_id FROM sandbox_order WHERE {condition} LIMIT {int(limit)}) "
            f"ORDER BY t.id FOR UPDATE {'' if wait else 'SKIP LOCKED'}",
            parameters,
        )
        keys = [row[0] for row in cursor.fetchall()]
    return load_groups(keys)


def load_groups(transaction_ids: Sequence[str]) -> list[list[OrderState]]:
    """Return the orders of the transactions with all their parts, by group, oldest first."""
    if not transaction_ids:
        return []
    groups: dict[str, list[OrderState]] = {}
    by_number: dict[int, OrderState] = {}
    columns = ", ".join(f"o.{name}" for name in ORDER_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {columns}, t.status FROM sandbox_order o "
            "JOIN sandbox_ordertransaction t ON t.id = o.transaction_id "
            "WHERE o.transaction_id = ANY(%s::uuid[]) ORDER BY o.number",
            [list(transaction_ids)],
        )
        for row in cursor.fetchall():
            order = OrderState(*(_uuid_as_text(value) for value in row[:-1]))
            order.transaction_status = row[-1]
            groups.setdefault(order.transaction_id, []).append(order)
            by_number[order.number] = order
        numbers = list(by_number)
        cursor.execute(
            "SELECT order_id, created_at, status, status_detail, id FROM sandbox_orderevent "
            "WHERE order_id = ANY(%s) ORDER BY id",
            [numbers],
        )
        for number, created_at, status, detail, key in cursor.fetchall():
            by_number[number].events.append(EventState(created_at, status, detail, key, True))
        cursor.execute(
            f"SELECT order_id, {', '.join(SHIPMENT_COLUMNS)} FROM sandbox_shipment "
            "WHERE order_id = ANY(%s)",
            [numbers],
        )
        for number, *values in cursor.fetchall():
            by_number[number].shipment = ShipmentState(*map(_uuid_as_text, values))
        _load_appointments(cursor, by_number)
    for group in groups.values():
        link_siblings(group)
    return list(groups.values())


def _load_appointments(cursor: Any, by_number: dict[int, OrderState]) -> None:
    cursor.execute(
        f"SELECT order_id, {', '.join(APPOINTMENT_COLUMNS)} FROM sandbox_appointment "
        "WHERE is_current AND order_id = ANY(%s)",
        [list(by_number)],
    )
    found: dict[str, AppointmentState] = {}
    for number, *values in cursor.fetchall():
        visit = AppointmentState(*map(_uuid_as_text, values))
        if isinstance(visit.event_data, str):
            visit.event_data = json.loads(visit.event_data)
        visit.changed = False
        by_number[number].appointment = found[visit.id] = visit
    cursor.execute(
        "SELECT appointment_id, created_at, status, data FROM sandbox_appointmentevent "
        "WHERE appointment_id = ANY(%s::uuid[]) ORDER BY id",
        [list(found)],
    )
    for key, created_at, status, data in cursor.fetchall():
        parsed = json.loads(data) if isinstance(data, str) else data
        found[str(key)].events.append(
            AppointmentEventState(created_at, status, parsed, stored=True)
        )


def _uuid_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, uuid.UUID) else value


def link_siblings(group: list[OrderState]) -> None:
    """Set `siblings` of every order of a group."""
    if len(group) == 1:
        return
    shown = {order.id: order.as_sibling() for order in group}
    for order in group:
        order.siblings = [shown[other.id] for other in group if other is not order]


def save_groups(groups: Sequence[list[OrderState]], new: Sequence[OrderState] = ()) -> None:
    """Write groups with changed orders; `new` are the orders that are not stored yet.

    The whole group is written, because its orders show each other. Needs the open database
    transaction that locked the groups.
    """
    orders = [order for group in groups for order in group]
    fresh = {order.number for order in new}
    with connection.cursor() as cursor:
        _number_events(cursor, orders)
        for group in groups:
            link_siblings(group)
            for order in group:
                order.moving_part = moving_part(order)
        opened = {(order.transaction_id, order.team_id) for order in new if order.parent_id is None}
        cursor.executemany(
            "INSERT INTO sandbox_ordertransaction (id, team_id, status) VALUES (%s, %s, 'active')",
            sorted(opened),
        )
        cursor.executemany(
            "UPDATE sandbox_ordertransaction SET status = %s WHERE id = %s AND status <> %s",
            [
                (group[0].transaction_status, group[0].transaction_id, group[0].transaction_status)
                for group in groups
            ],
        )
        cursor.executemany(
            f"INSERT INTO sandbox_order ({', '.join(ORDER_COLUMNS)}) "
            f"VALUES ({', '.join(['%s'] * len(ORDER_COLUMNS))})",
            [order_values(order) for order in orders if order.number in fresh],
        )
        cursor.executemany(
            f"UPDATE sandbox_order SET {', '.join(f'{name} = %s' for name in MOVING_COLUMNS)} "
            "WHERE number = %s",
            [
                (*_MOVING_VALUES(order), order.number)
                for order in orders
                if order.number not in fresh
            ],
        )
        _save_events(cursor, orders)
        _save_parts(cursor, orders)


def _number_events(cursor: Any, orders: Sequence[OrderState]) -> None:
    pending = [event for order in orders for event in order.events if not event.id]
    if pending:
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence('sandbox_orderevent', 'id')) "
            "FROM generate_series(1, %s)",
            [len(pending)],
        )
        for event, (number,) in zip(pending, cursor.fetchall(), strict=True):
            event.id = number


def _save_events(cursor: Any, orders: Sequence[OrderState]) -> None:
    rows = []
    for order in orders:
        for event in order.events:
            if not event.stored:
                event.stored = True
                rows.append(
                    (event.id, order.number, event.created_at, event.status, event.status_detail)
                )
    cursor.executemany(
        f"INSERT INTO sandbox_orderevent ({', '.join(EVENT_COLUMNS)}) "
        "OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, %s, %s)",
        rows,
    )


def _save_parts(cursor: Any, orders: Sequence[OrderState]) -> None:
    ended: list[tuple[Any, ...]] = []
    current: list[tuple[Any, ...]] = []
    history: list[tuple[Any, ...]] = []
    for order in orders:
        for visit in (*order.past_appointments, order.appointment):
            if visit is None or not visit.changed:
                continue
            (current if visit.is_current else ended).append(appointment_values(order.number, visit))
            visit.changed = False
            for event in visit.events:
                if not event.stored:
                    history.append(appointment_event_values(visit.id, event))
                    event.stored = True
    names = APPOINTMENT_TABLE_COLUMNS
    for rows in (ended, current):  # the former one first: only one may be current
        cursor.executemany(
            f"INSERT INTO sandbox_appointment ({', '.join(names)}) "
            f"VALUES ({', '.join(['%s'] * len(names))}) ON CONFLICT (id) DO UPDATE SET "
            + ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != "id"),
            rows,
        )
    cursor.executemany(
        f"INSERT INTO sandbox_appointmentevent ({', '.join(APPOINTMENT_EVENT_COLUMNS)}) "
        "VALUES (%s, %s, %s, %s)",
        history,
    )
    parcels = [shipment_values(order.number, order.shipment) for order in orders if order.shipment]
    names = SHIPMENT_TABLE_COLUMNS
    cursor.executemany(
        f"INSERT INTO sandbox_shipment ({', '.join(names)}) "
        f"VALUES ({', '.join(['%s'] * len(names))}) ON CONFLICT (order_id) DO UPDATE SET "
        + ", ".join(f"{name} = EXCLUDED.{name}" for name in names if name != "order_id"),
        parcels,
    )


def reset_sequence(table: str) -> None:
    """Set a table's id sequence behind its highest id (after COPY with ids)."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
            f"COALESCE(MAX(id), 0) + 1, false) FROM {table}"
        )
