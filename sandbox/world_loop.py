"""The simulated world: a thread that moves due orders and places new ones."""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import DurationField, ExpressionWrapper, F, Value

from sandbox import clock, order_lifecycle, order_store, people
from sandbox.catalogue import TEAM_IDS
from sandbox.context import Context, load_context
from sandbox.deliveries import order_events
from sandbox.keyed_random import KeyedRandom
from sandbox.models import Order, Team, User, UserInfo, World
from sandbox.people import person
from sandbox.reports import jobs
from sandbox.simulated_orders import new_order, new_redraw_order
from sandbox.states import OrderState
from sandbox.wearables import feeds

TICK = 1.0  # seconds
BATCH = 100
BATCHES_PER_TICK = 4
NEW_PER_TICK = 1
MOVES_LOCK = 4217
NEW_USER = 0.25  # of newly placed orders come with a new user
log = logging.getLogger(__name__)


def pace_for_speed(speed: float) -> float:
    """Return the divisor of the times in a status; 1 for a world that stands still."""
    return speed or 1.0


def set_speed(speed: float) -> None:
    """Change the speed, and scale the remaining waits of all orders."""
    with transaction.atomic():
        lock_moves("pg_advisory_xact_lock")
        world = World.objects.select_for_update().get(id=1)
        factor = pace_for_speed(world.speed) / pace_for_speed(speed)
        at = clock.real_now() + world.clock_offset
        world.speed = speed
        if world.next_place_at is not None:
            world.next_place_at = at + (world.next_place_at - at) * factor
        world.save(update_fields=["speed", "next_place_at"])
        if factor != 1:
            now = Value(at)
            wait = ExpressionWrapper(
                (F("next_at") - now) * Value(factor), output_field=DurationField()
            )
            Order.objects.filter(next_at__isnull=False).update(next_at=now + wait)


def lock_moves(function: str) -> None:
    """Take the lock of order moves by an advisory lock `function`.

    Code that moves orders takes it shared; code that changes the due times of all orders takes it
    exclusively.
    """
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [MOVES_LOCK])


def move_due(context: Context, at: datetime, speed: float, limit: int = BATCH) -> list[str]:
    """Move up to `limit` due orders one step; return the ids of the changed orders."""
    with transaction.atomic():
        lock_moves("pg_advisory_xact_lock_shared")
        groups = order_store.lock_groups("next_at <= %s ORDER BY next_at", [at], limit)
        return move_groups(context, groups, at, speed, lambda order: _is_due(order, at))


def _is_due(order: OrderState, at: datetime) -> bool:
    return order.next_at is not None and order.next_at <= at


def move_chosen(
    context: Context, numbers: list[int], speed: float, target: str | None = None
) -> list[str]:
    """Move these orders one step, due or not; return the ids of the changed orders."""
    part = set(numbers)
    with transaction.atomic():
        lock_moves("pg_advisory_xact_lock_shared")
        groups = order_store.lock_groups("number = ANY(%s)", [numbers], len(numbers), wait=True)
        return move_groups(
            context, groups, clock.now(), speed, lambda order: order.number in part, target
        )


def move_groups(
    context: Context,
    groups: list[list[OrderState]],
    at: datetime,
    speed: float,
    chosen: Callable[[OrderState], bool],
    target: str | None = None,
) -> list[str]:
    """Move the chosen orders of locked groups once and stores what changed, new redraws included.

    `target` forces the move (one the order's state must allow). Needs an open transaction.
    """
    pace = pace_for_speed(speed)
    changed: list[list[OrderState]] = []
    waiting: list[OrderState] = []
    new: list[OrderState] = []
    ids: list[str] = []
    register = registrant_chooser(context)
    for group in groups:
        before = len(ids)
        for order in [each for each in group if chosen(each)]:
            done = order_lifecycle.step(context, order, at, register, pace, target)
            if not done:
                waiting.append(order)
                continue
            ids.append(order.id)
            if done == "redraw_available":
                made = new_redraw(context, order, pace)
                group.append(made)
                new.append(made)
        if len(ids) > before:
            update_transaction(group)
            changed.append(group)
    if changed:
        told = order_events.collect_entries(changed)
        order_store.save_groups(changed, new)
        order_events.announce_entries(told)
    Order.objects.filter(number__in=[order.number for order in waiting]).update(next_at=None)
    return ids


def update_transaction(group: list[OrderState]) -> None:
    """Update the transaction status of a group; all its orders show it, so all are
    updated at the newest moment among them."""
    status = order_lifecycle.transaction_status(group)
    newest = max(order.updated_at for order in group)
    for order in group:
        order.transaction_status = status
        order.updated_at = max(newest, order.updated_at)


def new_redraw(context: Context, parent: OrderState, pace: float) -> OrderState:
    number, seq, at = allocate_order_number(parent.team_id)
    made = new_redraw_order(context, parent, number, seq, max(at, parent.updated_at))
    order_lifecycle.schedule(context, made, made.created_at, pace)
    return made


def allocate_order_number(team_id: str) -> tuple[int, int, datetime]:
    """Return the next order number, the team's next seq, and a time not before its last order.

    Locks the rows of the world and the team until the transaction ends, so that `seq` and
    `created_at` grow together.
    """
    world = World.objects.select_for_update().get(id=1)
    team = Team.objects.select_for_update().get(id=team_id)
    world.order_count += 1
    team.order_count += 1
    world.save(update_fields=["order_count"])
    team.save(update_fields=["order_count"])
    last = Order.objects.filter(team=team, seq=team.order_count - 1).values_list(
        "created_at", flat=True
    )
    at = clock.real_now() + world.clock_offset
    return world.order_count, team.order_count, max([at, *(moment for moment in last)])


def registrant_chooser(context: Context) -> order_lifecycle.ChooseRegistrant:
    """Return a function that chooses who registers a kit: never a user that the team created."""

    def choose(order: OrderState) -> people.Person:
        rng = KeyedRandom(context.seed, "register", order.number)
        highest = _seeded_users()
        while True:
            who = person(context.seed, rng.integer(people.STOCK_USERS + 1, highest))
            if User.objects.filter(id=who.user_id).exists():
                return who

    return choose


def _seeded_users() -> int:
    """Return the highest user number of the own team."""
    number = User.objects.filter(team_id=TEAM_IDS[0]).order_by("-seq").values_list("seq", flat=True)
    return number[0]


def place_orders(context: Context, count: int, speed: float) -> list[str]:
    """Place `count` new orders of our team, now and then of a new user; return their ids."""
    ids = []
    with transaction.atomic():
        for _ in range(count):
            number, seq, at = allocate_order_number(TEAM_IDS[0])
            rng = KeyedRandom(context.seed, "who", number)
            user = _choose_user(context, rng, at)
            stock = person(context.seed, 1).user_id
            order = new_order(context, number, seq, TEAM_IDS[0], at, user, stock)
            order_lifecycle.schedule(context, order, at, pace_for_speed(speed))
            order.transaction_status = "active"
            told = order_events.collect_entries([[order]])
            order_store.save_groups([[order]], [order])
            order_events.announce_entries(told)
            ids.append(order.id)
    return ids


def _choose_user(context: Context, rng: KeyedRandom, at: datetime) -> int:
    if rng.chance(NEW_USER):
        return make_user(context, at)
    taken = User.objects.filter(
        team_id=TEAM_IDS[0], deleted_at__isnull=True, seq__gt=people.STOCK_USERS
    )
    highest = _seeded_users()
    for _ in range(20):
        number = rng.integer(people.STOCK_USERS + 1, highest)
        # Users created by the team itself have no made-up person behind them.
        if taken.filter(id=person(context.seed, number).user_id).exists():
            return number
    return make_user(context, at)


def make_user(context: Context, at: datetime) -> int:
    """Create a user with seeded demographics; return its number."""
    world = World.objects.select_for_update().get(id=1)
    number = world.user_count + 1
    world.user_count = number
    world.save(update_fields=["user_count"])
    seed = context.seed
    row = people.user_row(seed, number, TEAM_IDS[0], at)
    user = User.objects.create(**dict(zip(people.USER_COLUMNS, row, strict=True)))
    info = people.info_row(seed, number, at)
    if info is not None:
        values = dict(zip(people.INFO_COLUMNS, info, strict=True))
        proxy = values.pop("medical_proxy")
        UserInfo.objects.create(
            **values | {"medical_proxy": json.loads(proxy) if proxy else None, "updated_at": at}
        )
    return user.seq


def delete_users(user_ids: Iterable[uuid.UUID | str], at: datetime) -> int:
    """Delete users: their connections and pulls go, their orders stay (users.md 2)."""
    with transaction.atomic():
        users = User.objects.select_for_update().filter(id__in=user_ids, deleted_at__isnull=True)
        keys = [user.id for user in users]
        for key in keys:
            User.objects.get(id=key).connections.all().delete()
            User.objects.get(id=key).pulls.all().delete()
        return User.objects.filter(id__in=keys).update(deleted_at=at)


class WorldLoop(threading.Thread):
    """Ticks once a second until `stop` is set."""

    def __init__(self) -> None:
        super().__init__(name="life", daemon=True)
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.wait(TICK):
            try:
                tick()
            except Exception:
                # A failed batch is rolled back; the next tick goes on.
                log.exception("a tick of the simulation failed")
                connection.close()


def tick() -> None:
    """Simulate one second: move due orders in batches, then perhaps place a new order."""
    world = World.objects.get(id=1)
    if not world.speed:
        return
    context = load_context()
    for _ in range(BATCHES_PER_TICK):
        if not move_due(context, clock.real_now() + world.clock_offset, world.speed):
            break
    at = clock.real_now() + world.clock_offset
    if world.next_place_at is not None and world.next_place_at <= at:
        place_orders(context, NEW_PER_TICK, world.speed)
        gap = timedelta(days=1) / world.orders_per_day / world.speed
        World.objects.filter(id=1).update(next_place_at=at + gap)
    feeds.tick(at, world.speed)
    jobs.tick(at, world.speed)
