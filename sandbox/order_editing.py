"""Changing one order on somebody's command: locked, settled, stored and told in one transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import UUID

from django.db import transaction

from sandbox import clock, order_lifecycle, order_store, world_loop
from sandbox.context import load_context
from sandbox.deliveries import order_events
from sandbox.keyed_random import Draw
from sandbox.models import World
from sandbox.states import OrderState


@contextmanager
def held(order_id: UUID | str) -> Iterator[OrderState]:
    """The order, nobody else's until the block ends; what the block changed is stored and told.

    An exception inside changes nothing.
    """
    with transaction.atomic():
        world_loop.hold_moves("pg_advisory_xact_lock_shared")
        [group] = order_store.claim("id = %s", [str(order_id)], 1, wait=True)
        [order] = [each for each in group if each.id == str(order_id)]
        step = order.step
        yield order
        if order.step == step:
            return
        world_loop.settle(group)
        told = order_events.gather([group])
        order_store.save([group])
        order_events.tell(told)


def moment(order: OrderState) -> datetime:
    """Now, but after everything that has happened to the order."""
    return max(clock.now(), order.updated_at + order_lifecycle.INSTANT)


def draw_for(order: OrderState) -> Draw:
    """Draws for the order's next step."""
    return Draw(World.objects.get(id=1).seed, "command", order.number, order.step)


def end_step(order: OrderState, at: datetime) -> None:
    """The order has been changed at `at`; life goes on from where it stands now."""
    order.step += 1
    order.updated_at = max(order.updated_at + order_lifecycle.INSTANT, order.last_event_at, at)
    order_lifecycle.schedule(load_context(), order, order.updated_at, pace())


def pace() -> float:
    """What dwell times are divided by."""
    return world_loop.pace_of(World.objects.get(id=1).speed)
