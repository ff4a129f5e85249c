"""A service that answers with unusual results, and an order for them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from pytest_django import Settings

from tests.sandbox_service import look_up, sandbox_as_service
from tests.sandboxes import Sandbox, SandboxFactory


@pytest.fixture(scope="module")
def world(sandbox_factory: SandboxFactory) -> Sandbox:
    return sandbox_factory(users=6, orders=20, seed=17, speed=0)


@pytest.fixture
def key(world: Sandbox, settings: Settings) -> Iterator[UUID]:
    """A mirrored order with a final, normal result that is not read yet."""
    with sandbox_as_service(world, settings):
        found = world.query(
            "SELECT id FROM sandbox_order WHERE result_status = 'final'"
            " AND interpretation = 'normal' AND status LIKE 'completed%%' ORDER BY seq LIMIT 1"
        )[0][0]
        look_up("orders", found)
        yield UUID(str(found))
