"""For every command: how to come by one, and how to count at the service what came of it.

Subjects are made at the sandbox and read into the mirror, so that no test waits for the right one
to turn up. `effects` counts rows of the sandbox's own database.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx

from backoffice.outbox import Command
from backoffice.remote import service
from orders.commands import CancelOrder, ChangeActivation, CompleteDraw, Simulate
from orders.models import Order
from orders.sync.orders import store_orders
from tests.sandbox.conftest import TEAM_KEY
from tests.sandbox.ordering import World
from tests.sandboxes import Sandbox


@dataclass
class Scene:
    """Both sides: the sandbox to make things in, and our mirror."""

    sandbox: Sandbox
    world: World = field(init=False, repr=False)

    def __post_init__(self) -> None:
        client = httpx.Client(base_url=self.sandbox.url, headers=TEAM_KEY, timeout=30)
        self.world = World(self.sandbox, client)

    def close(self) -> None:
        self.world.http.close()

    def order(self, test: str, status: str = "", **body: Any) -> Order:
        """A new order that has come to a status, as the mirror has it."""
        made = self.world.place(test, **body)
        if status:
            self.world.go(made["id"], status)
        store_orders([service().orders.get(UUID(made["id"]))])
        return Order.objects.get(pk=made["id"])

    def count(self, statement: str, *values: Any) -> int:
        return int(self.sandbox.query(statement, values)[0][0])

    def events(self, order_id: UUID, status: str) -> int:
        """How often an order came to a low-level status."""
        return self.count(
            "SELECT count(*) FROM sandbox_orderevent WHERE order_id ="
            " (SELECT number FROM sandbox_order WHERE id = %s) AND status LIKE %s",
            order_id,
            f"%.{status}",
        )


@dataclass(frozen=True)
class Case:
    """One class. `path` finds its write at the sandbox. `finds`: its look-up can tell that it
    happened; else a person has to, with what was found."""

    kind: type[Command]
    make: Callable[[Scene], Any]
    effects: Callable[[Scene, Any], int]
    path: str
    finds: bool = True


def _soon(days: int) -> Any:
    return (datetime.now(UTC) + timedelta(days=days)).date()


def _cancel(scene: Scene) -> CancelOrder:
    order = scene.order("Clinic Draw Basic")
    return CancelOrder(order_id=order.pk, user_id=order.user_id)


def _activation(scene: Scene) -> ChangeActivation:
    order = scene.order("Clinic Draw Basic", activate_by=str(_soon(20)))
    return ChangeActivation(order_id=order.pk, user_id=order.user_id, activate_by=_soon(25))


def _activated(scene: Scene, command: ChangeActivation) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_order WHERE id = %s AND activate_by = %s",
        command.order_id,
        command.activate_by,
    )


def _draw(scene: Scene) -> CompleteDraw:
    order = scene.order("Clinic Draw Basic", "received.on_site_collection.requisition_created")
    return CompleteDraw(order_id=order.pk, user_id=order.user_id)


def _simulate(scene: Scene) -> Simulate:
    order = scene.order("Clinic Draw Basic")
    return Simulate(
        order_id=order.pk,
        user_id=order.user_id,
        final_status="completed.on_site_collection.completed",
        before=order.last_event_id,
    )


CASES = (
    Case(CancelOrder, _cancel, lambda scene, c: scene.events(c.order_id, "cancelled"), "/cancel$"),
    Case(ChangeActivation, _activation, _activated, "/v3/order/[0-9a-f-]+$"),
    Case(
        CompleteDraw, _draw, lambda scene, c: scene.events(c.order_id, "draw_completed"),
        "/draw_completed$",
    ),
    Case(
        Simulate, _simulate, lambda scene, c: scene.events(c.order_id, "completed"), "/test$"
    ),
)  # fmt: skip
