"""Fill an empty world: catalogue, people, and orders with a history.

Everything is a function of (seed, epoch, sizes). Orders are made in numbered slots with ascending
times; each is simulated up to the epoch in memory, and rows are written in chunks by COPY. A redraw
takes the first free slot after `redraw_available` of its parent.
"""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from django.db import connection, transaction
from psycopg import Connection

from sandbox import clock, order_lifecycle, order_store, people
from sandbox.catalogue import TEAM_IDS, make_catalogue
from sandbox.context import Context, load_context
from sandbox.keyed_random import KeyedRandom
from sandbox.models import Team, World
from sandbox.people import Person, person
from sandbox.places import make_places
from sandbox.records import moving_part
from sandbox.simulated_orders import new_order, new_redraw_order
from sandbox.states import ORDER_COLUMNS, OrderState

CHUNK = 4000
FOREIGN_USERS = 5
FOREIGN_ORDERS = 20
TABLES_IN_BULK = (
    "sandbox_order",
    "sandbox_orderevent",
    "sandbox_ordertransaction",
    "sandbox_shipment",
    "sandbox_appointment",
    "sandbox_appointmentevent",
    "sandbox_historicalpull",
    "sandbox_connection",
    "sandbox_insurance",
    "sandbox_userinfo",
    "sandbox_user",
)


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """Sizes and times of a world. Users and orders are spread evenly over their time spans."""

    seed: int
    users: int
    orders: int
    epoch: datetime
    history: timedelta

    @property
    def orders_per_day(self) -> float:
        return max(self.orders, 1) / (self.history / timedelta(days=1))

    def slot_at(self, number: int) -> datetime:
        """Return the time of order slot `number`, 1..orders; it grows with the number."""
        shift = KeyedRandom(self.seed, "slot", number).fraction() * 0.9
        return self.epoch - self.history + self.history * ((number - 1 + shift) / self.orders)

    def slot_after(self, at: datetime) -> int:
        """Return the first slot that is certainly later than a time; it may exceed `orders`."""
        return int((at - self.epoch + self.history) / self.history * self.orders) + 2

    def user_at(self, number: int) -> datetime:
        """Return when user `number` was created."""
        start, span = people.created_span(self.epoch, self.history)
        shift = KeyedRandom(self.seed, "user slot", number).fraction()
        return start + span * ((number - 1 + shift) / self.users)

    def users_before(self, at: datetime) -> int:
        """Return how many users were created at least a day before a time."""
        start, span = people.created_span(self.epoch, self.history)
        known = int((at - start - timedelta(days=1)) / span * self.users)
        return max(people.STOCK_USERS + 1, min(known, self.users))


def make_plan(seed: int, users: int, orders: int, epoch: datetime | None) -> WorldPlan:
    """Return a plan with a history of 45 to 540 days, about 60 orders a day within these limits."""
    days = min(540.0, max(45.0, orders / 60))
    at = (epoch or clock.real_now()).astimezone(UTC)
    return WorldPlan(seed, max(users, people.STOCK_USERS + 1), orders, at, timedelta(days=days))


def is_empty() -> bool:
    """Return whether the world has not been seeded yet."""
    return not World.objects.exists()


def wipe() -> None:
    """Empty every table."""
    with connection.cursor() as cursor:
        tables = [t for t in connection.introspection.table_names(cursor) if t.startswith("sand")]
        cursor.execute(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY CASCADE")


def seed_world(what: WorldPlan, progress: Callable[[int], None] = lambda count: None) -> None:
    """Seed the world in one database transaction; call `progress` with the orders made so far."""
    with transaction.atomic(), _gc_disabled():
        wipe()
        World.objects.create(
            id=1,
            seed=what.seed,
            epoch=what.epoch,
            clock_offset=what.epoch - clock.real_now(),
            speed=1,
            orders_per_day=min(60.0, what.orders_per_day),
            next_place_at=what.epoch + timedelta(minutes=5),
        )
        make_catalogue(what.epoch)
        make_places()
        context = load_context()
        rebuild = _drop_indexes()
        _make_people(what)
        _make_orders(what, context, progress)
        for statement in rebuild:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        for table in ("sandbox_orderevent", "sandbox_appointmentevent"):
            order_store.reset_sequence(table)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """Disable the garbage collector: millions of small records, without cycles, come and go."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _drop_indexes() -> list[str]:
    """Drop foreign keys and plain indexes of the large tables; return statements that restore
    them."""
    rebuild: list[str] = []
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # nothing may be pending on the tables
        cursor.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) "
            "FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text = ANY(%s)",
            [list(TABLES_IN_BULK)],
        )
        keys = cursor.fetchall()
        cursor.execute(
            "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i "
            "WHERE i.indrelid::regclass::text = ANY(%s) AND NOT i.indisprimary AND NOT EXISTS "
            "(SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)",
            [list(TABLES_IN_BULK)],
        )
        for name, definition in cursor.fetchall():
            cursor.execute(f"DROP INDEX {name}")
            rebuild.append(definition)
        for table, name, definition in keys:
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
            rebuild.append(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')
    return rebuild


def _make_people(what: WorldPlan) -> None:
    seed, total = what.seed, what.users + FOREIGN_USERS
    database = connection.connection

    def team(number: int) -> str:
        return TEAM_IDS[0] if number <= what.users else TEAM_IDS[1]

    def made(number: int) -> datetime:
        return what.user_at(min(number, what.users))

    for first in range(1, total + 1, CHUNK):
        numbers = range(first, min(first + CHUNK, total + 1))
        order_store.copy_rows(
            database,
            "sandbox_user",
            people.USER_COLUMNS,
            (people.user_row(seed, n, team(n), made(n)) for n in numbers),
        )
        infos = (people.info_row(seed, n, made(n)) for n in numbers)
        order_store.copy_rows(
            database,
            "sandbox_userinfo",
            people.INFO_COLUMNS,
            (row for row in infos if row is not None),
        )
        order_store.copy_rows(
            database,
            "sandbox_insurance",
            people.INSURANCE_COLUMNS,
            (row for n in numbers for row in people.insurance_rows(seed, n, made(n))),
        )
        connected = [people.connection_rows(seed, n, made(n), what.epoch) for n in numbers]
        order_store.copy_rows(
            database,
            "sandbox_connection",
            people.CONNECTION_COLUMNS,
            (r for c, _ in connected for r in c),
        )
        order_store.copy_rows(
            database,
            "sandbox_historicalpull",
            people.PULL_COLUMNS,
            (r for _, p in connected for r in p),
        )
    World.objects.filter(id=1).update(user_count=total)


def _make_orders(what: WorldPlan, context: Context, progress: Callable[[int], None]) -> None:
    next_event = 1
    made = 0
    orders = _all_orders(what, context)
    # One chunk is written while the next one is made.
    with ThreadPoolExecutor(max_workers=1) as writer:
        sent: Future[None] | None = None
        while chunk := list(islice(orders, CHUNK)):
            for order in chunk:
                for event in order.events:
                    event.id = next_event
                    next_event += 1
                order.moving_part = moving_part(order)
            if sent is not None:
                sent.result()
            sent = writer.submit(_write, connection.connection, chunk)
            made += len(chunk)
            progress(made)
        if sent is not None:
            sent.result()
    World.objects.filter(id=1).update(order_count=what.orders + FOREIGN_ORDERS)
    Team.objects.filter(id=TEAM_IDS[0]).update(order_count=what.orders)
    Team.objects.filter(id=TEAM_IDS[1]).update(order_count=FOREIGN_ORDERS)


def _all_orders(what: WorldPlan, context: Context) -> Iterator[OrderState]:
    yield from _own_orders(what, context)
    yield from _other_team_orders(what, context)


def _own_orders(what: WorldPlan, context: Context) -> Iterator[OrderState]:
    register = registrant_chooser(context.seed, lambda order: what.users_before(order.created_at))
    stock = person(what.seed, 1).user_id
    taken: dict[int, OrderState] = {}
    for number in range(1, what.orders + 1):
        at = what.slot_at(number)
        redraw = taken.pop(number, None)
        if redraw is not None:
            yield redraw
            continue
        chosen = KeyedRandom(what.seed, "who", number).integer(
            people.STOCK_USERS + 1, what.users_before(at)
        )
        order = new_order(context, number, number, TEAM_IDS[0], at, chosen, stock)
        order_lifecycle.schedule(context, order, at)
        follow_up = _simulate(what, context, order, register, taken)
        if follow_up is not None:
            _simulate(what, context, follow_up, register, taken)
            group = [order, follow_up]
            status = order_lifecycle.transaction_status(group)
            order.updated_at = max(order.updated_at + order_lifecycle.INSTANT, follow_up.updated_at)
            for each in group:
                each.transaction_status = status
            order_store.link_siblings(group)
        yield order


def _simulate(
    what: WorldPlan,
    context: Context,
    order: OrderState,
    register: order_lifecycle.ChooseRegistrant,
    taken: dict[int, OrderState],
) -> OrderState | None:
    """Simulate the order up to the epoch; return its redraw, which takes a slot in `taken`."""
    while order.next_at is not None and order.next_at <= what.epoch:
        at = order.next_at
        if order.planned == "redraw_available":
            slot = what.slot_after(at)
            while slot in taken:
                slot += 1
            if slot > what.orders:
                order.next_at = what.epoch  # The world loop does it at its first tick.
                break
            order_lifecycle.step(context, order, at, register)
            made = new_redraw_order(context, order, slot, slot, what.slot_at(slot))
            order_lifecycle.schedule(context, made, made.created_at)
            taken[slot] = made
            return made
        order_lifecycle.step(context, order, at, register)
    order.transaction_status = order_lifecycle.transaction_status([order])
    return None


def _other_team_orders(what: WorldPlan, context: Context) -> Iterator[OrderState]:
    """Yield a few new orders of another team; the key of the own team must not show them."""
    for seq in range(1, FOREIGN_ORDERS + 1):
        number = what.orders + seq
        user = what.users + 1 + seq % FOREIGN_USERS
        at = what.epoch - timedelta(hours=FOREIGN_ORDERS - seq, minutes=1)
        order = new_order(context, number, seq, TEAM_IDS[1], at, user, None)
        order.next_at = None
        yield order


def registrant_chooser(
    seed: int, users: Callable[[OrderState], int]
) -> order_lifecycle.ChooseRegistrant:
    """Return a function that chooses who registers a kit, among the first `users(order)`."""

    def choose(order: OrderState) -> Person:
        rng = KeyedRandom(seed, "register", order.number)
        return person(seed, rng.integer(people.STOCK_USERS + 1, users(order)))

    return choose


def _write(database: Connection[Any], orders: list[OrderState]) -> None:
    opened = [order for order in orders if order.origin == "initial"]
    order_store.copy_rows(
        database,
        "sandbox_ordertransaction",
        ("id", "team_id", "status"),
        ((o.transaction_id, o.team_id, o.transaction_status) for o in opened),
    )
    order_store.copy_rows(
        database, "sandbox_order", ORDER_COLUMNS, map(order_store.order_values, orders)
    )
    order_store.copy_rows(
        database,
        "sandbox_orderevent",
        order_store.EVENT_COLUMNS,
        (
            (event.id, order.number, event.created_at, event.status, event.status_detail)
            for order in orders
            for event in order.events
        ),
    )
    order_store.copy_rows(
        database,
        "sandbox_shipment",
        order_store.SHIPMENT_TABLE_COLUMNS,
        (order_store.shipment_values(o.number, o.shipment) for o in orders if o.shipment),
    )
    visits: list[tuple[int, Any]] = [
        (order.number, visit)
        for order in orders
        for visit in (*order.past_appointments, order.appointment)
        if visit is not None
    ]
    order_store.copy_rows(
        database,
        "sandbox_appointment",
        order_store.APPOINTMENT_TABLE_COLUMNS,
        (order_store.appointment_values(number, visit) for number, visit in visits),
    )
    order_store.copy_rows(
        database,
        "sandbox_appointmentevent",
        order_store.APPOINTMENT_EVENT_COLUMNS,
        (
            order_store.appointment_event_values(v.id, event)
            for _, v in visits
            for event in v.events
        ),
    )
