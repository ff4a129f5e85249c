"""Orders of a real sandbox in the states that their documents depend on, as the mirror has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from pytest_django import Settings

from backoffice.core import service_client
from orders.models import Order
from orders.sync import store_orders
from tests.sandbox_service import sandbox_as_service
from tests.sandboxes import Sandbox, running

STATES: Final = {
    "ready": "has_requisition AND low_level_status = 'requisition_created'",
    "not ready": "NOT has_requisition AND NOT imported AND low_level_status = 'ordered'",
    "imported": "imported",
    "canceled": "low_level_status = 'cancelled'",
    "completed": "low_level_status = 'completed'",
}
OUR_TEAM: Final = "SELECT team_id FROM sandbox_order GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"
FindOrder = Callable[..., Order]


@pytest.fixture(scope="package")
def documents_sandbox() -> Iterator[Sandbox]:
    with running(users=40, orders=300, seed=11) as sandbox:
        yield sandbox


@pytest.fixture
def world(documents_sandbox: Sandbox, settings: Settings, db: None) -> Iterator[Sandbox]:
    with sandbox_as_service(documents_sandbox, settings):
        yield documents_sandbox
        documents_sandbox.control("faults", method="DELETE")


@pytest.fixture
def find_order(world: Sandbox) -> FindOrder:
    """`find_order("ready")`, or `find_order(number=2, where="…")` for another one."""

    def find(state: str = "", *, number: int = 0, where: str = "") -> Order:
        rows = world.query(
            f"SELECT id FROM sandbox_order WHERE {where or STATES[state]}"
            " AND user_id IS NOT NULL"
            f" AND team_id = ({OUR_TEAM})"
            " ORDER BY created_at DESC, id OFFSET %s LIMIT 1",
            [number],
        )
        assert rows, f"the sandbox has no such order: {where or state}"
        store_orders([service_client.service().orders.get(rows[0][0])])
        return Order.objects.get(pk=rows[0][0])

    return find
