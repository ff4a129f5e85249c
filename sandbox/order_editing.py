"""Change one order for a request: lock, change, store and announce it in one transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from django.db import transaction

from sandbox import clock, order_lifecycle, order_store, world_loop
from sandbox.context import load_context
from sandbox.deliveries import order_events
from sandbox.keyed_random import KeyedRandom
from sandbox.models import World
from sandbox.states import OrderState


@contextmanager
def edit_order(order_id: UUID | str) -> Iterator[OrderState]:
    """Yield the locked order. When the block ends, its changes are stored and announced.

    An exception in the block discards them.
    """
    with transaction.atomic():
        world_loop.lock_moves("pg_advisory_xact_lock_shared")
        [group] = order_store.lock_groups("id = %s", [str(order_id)], 1, wait=True)
        [order] = [each for each in group if each.id == str(order_id)]
        step = order.step
        yield order
        if order.step == step:
            return
        world_loop.update_transaction(group)
        told = order_events.collect_entries([group])
        order_store.save_groups([group])
        order_events.announce_entries(told)


def next_moment(order: OrderState) -> datetime:
    """Return the current time, but later than everything that has happened to the order."""
    return max(clock.now(), order.updated_at + order_lifecycle.INSTANT)


def rng_for(order: OrderState) -> KeyedRandom:
    """Return the random numbers for the order's next step."""
    return KeyedRandom(World.objects.get(id=1).seed, "command", order.number, order.step)


def end_step(order: OrderState, at: datetime) -> None:
    """Finish a change made at `at`: schedule the order's next simulated step."""
    order.step += 1
    order.updated_at = max(order.updated_at + order_lifecycle.INSTANT, order.last_event_at, at)
    order_lifecycle.schedule(load_context(), order, order.updated_at, current_pace())


def current_pace() -> float:
    """Return the divisor of the times that orders stay in a status."""
    return world_loop.pace_for_speed(World.objects.get(id=1).speed)
