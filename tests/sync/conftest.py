"""One sandbox with 5,000 orders and one mirror of it, shared by the scenarios."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from pytest_django import Settings

from backoffice.core import service_client
from tests.sandboxes import Sandbox, running
from tests.sync.back_office import BackOffice, BackOffices
from tests.sync.stub_server import Answer, serving

USERS, ORDERS = 300, 5_000
StubService = Callable[[Answer], None]


@dataclass
class SyncedMirror:
    """A sandbox and the back office that mirrors it."""

    sandbox: Sandbox
    back_office: BackOffice


@pytest.fixture(scope="package")
def back_offices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackOffices]:
    factory = BackOffices(os.environ["DATABASE_URL"], tmp_path_factory.mktemp("back_offices"))
    try:
        yield factory
    finally:
        factory.close()


@pytest.fixture(scope="package")
def big_sandbox() -> Iterator[Sandbox]:
    with running(users=USERS, orders=ORDERS, seed=5) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def synced(big_sandbox: Sandbox, back_offices: BackOffices) -> SyncedMirror:
    """The mirror after its first sync."""
    back_office = back_offices.build(big_sandbox.url)
    back_office.sync()
    return SyncedMirror(big_sandbox, back_office)


@pytest.fixture
def faults(big_sandbox: Sandbox) -> Iterator[Callable[..., None]]:
    """Switch faults on. They are switched off after the test."""
    try:
        yield lambda **faults: big_sandbox.control("faults", faults)
    finally:
        big_sandbox.control("faults", method="DELETE")


@pytest.fixture
def stub_service(settings: Settings) -> Iterator[StubService]:
    """Return a function that starts a stub server and makes it the service of the back office."""
    with ExitStack() as stack:

        def start(answer: Answer) -> None:
            settings.SERVICE_BASE_URL = stack.enter_context(serving(answer))
            settings.MANAGEMENT_BASE_URL = settings.SERVICE_BASE_URL
            service_client.service.cache_clear()

        yield start
        service_client.service.cache_clear()
