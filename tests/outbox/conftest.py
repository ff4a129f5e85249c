"""One sandbox for all tests of the outbox; each test has its own mirror of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from backoffice import remote
from tests.outbox.desk import Desk
from tests.sandboxes import Sandbox, running


@pytest.fixture(scope="package")
def outbox_sandbox() -> Iterator[Sandbox]:
    with running(users=20, orders=150, seed=11) as sandbox:
        yield sandbox


@pytest.fixture
def desk(outbox_sandbox: Sandbox, settings: Settings, transactional_db: None) -> Iterator[Desk]:
    """Staff at work: the mirror is current, nothing goes wrong yet."""
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = outbox_sandbox.url
    remote.service.cache_clear()
    made = Desk(outbox_sandbox)
    made.mirror()
    try:
        yield made
    finally:
        outbox_sandbox.control("faults", method="DELETE")
        remote.service.cache_clear()
