"""Both sides at once: the sandbox to make subjects in, and our mirror of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx

from backoffice.core.service_client import service
from backoffice.outbox import Command
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

    def somebody_listens(self) -> None:
        """A webhook endpoint, at an address where nobody answers."""
        if not self.count("SELECT count(*) FROM sandbox_webhookendpoint"):
            self.sandbox.control("webhooks", {"url": "http://127.0.0.1:9/webhooks/"})

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
    """One class. `effects` counts by the command and the id of its row. `path` finds its write at
    the sandbox. `finds`: its look-up can tell that it happened; else a person has to, with what was
    found."""

    kind: type[Command]
    make: Callable[[Scene], Any]
    effects: Callable[[Scene, Any, UUID], int]
    path: str
    finds: bool = True
