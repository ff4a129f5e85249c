"""Records for commands, created at the sandbox and read into the mirror."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx

from backoffice.core.service_client import service
from backoffice.outbox.command import Command
from orders.models import Order
from orders.sync.orders import store_orders
from tests.sandbox.conftest import TEAM_KEY
from tests.sandbox.ordering import World
from tests.sandboxes import Sandbox


@dataclass
class SandboxRecords:
    """Creates records at the sandbox, mirrors them, and counts rows of the sandbox's database."""

    sandbox: Sandbox
    world: World = field(init=False, repr=False)

    def __post_init__(self) -> None:
        client = httpx.Client(base_url=self.sandbox.url, headers=TEAM_KEY, timeout=30)
        self.world = World(self.sandbox, client)

    def close(self) -> None:
        self.world.http.close()

    def place_order(self, test: str, status: str = "", **body: Any) -> Order:
        """Place an order, move it to `status`, and return it from the mirror."""
        order = self.world.place(test, **body)
        if status:
            self.world.go(order["id"], status)
        store_orders([service().orders.get(UUID(order["id"]))])
        return Order.objects.get(pk=order["id"])

    def ensure_endpoint(self, url: str) -> None:
        """Create the webhook endpoint with this address unless it exists."""
        if not self.count("SELECT count(*) FROM sandbox_webhookendpoint WHERE url = %s", url):
            self.sandbox.control("webhooks", {"url": url})

    def count(self, statement: str, *values: Any) -> int:
        return int(self.sandbox.query(statement, values)[0][0])

    def count_events(self, order_id: UUID, status: str) -> int:
        """Return how often an order entered a low-level status."""
        return self.count(
            "SELECT count(*) FROM sandbox_orderevent WHERE order_id ="
            " (SELECT number FROM sandbox_order WHERE id = %s) AND status LIKE %s",
            order_id,
            f"%.{status}",
        )


@dataclass(frozen=True)
class CommandCase:
    """A command type and how to test it.

    `count_effects` counts by the command and the id of its row. `path` matches its write at the
    sandbox. `lookup_confirms` says whether a lookup can tell that the command was carried out; if
    not, a person has to decide, with the records that the lookup found.
    """

    command_type: type[Command]
    create_command: Callable[[SandboxRecords], Any]
    count_effects: Callable[[SandboxRecords, Any, UUID], int]
    path: str
    lookup_confirms: bool = True
