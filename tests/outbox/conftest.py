"""One sandbox for all tests of the outbox; each starts from its first state, and a mirror of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker, Settings

from backoffice.core import service_client
from tests.outbox.desk import Desk
from tests.outbox.kept import Kept, keep, put_back
from tests.outbox.keys import UseKey
from tests.outbox.proving import SEND_SECONDS, Proof, proving
from tests.outbox.workers import environment
from tests.sandboxes import Sandbox, running
from tests.sync.house import House


@pytest.fixture(scope="package")
def outbox_sandbox() -> Iterator[Sandbox]:
    with running(users=20, orders=150, seed=11) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def beginning() -> dict[str, Kept]:
    """By the address of its database: what both sides had when the mirror was first current."""
    return {}


@pytest.fixture
def desk(
    outbox_sandbox: Sandbox,
    beginning: dict[str, Kept],
    settings: Settings,
    transactional_db: None,
) -> Iterator[Desk]:
    """Staff at work: the mirror is current, nothing goes wrong yet."""
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = outbox_sandbox.url
    service_client.service.cache_clear()
    made = Desk(outbox_sandbox)
    for database_url, rows in beginning.items():
        put_back(database_url, rows)
    if not beginning:
        made.mirror()
        for database_url in (environment()["DATABASE_URL"], outbox_sandbox.database_url):
            beginning[database_url] = keep(database_url)
    try:
        yield made
    finally:
        outbox_sandbox.control("faults", method="DELETE")
        service_client.service.cache_clear()


@pytest.fixture
def use_key(desk: Desk, settings: Settings) -> Iterator[UseKey]:
    """Sets the key as a restart with another setting would."""

    def use(key: str) -> None:
        settings.SERVICE_API_KEY = key
        service_client.service.cache_clear()

    yield use
    desk.sandbox.control("answers", method="DELETE")
    service_client.service.cache_clear()


@pytest.fixture
def house(desk: Desk, tmp_path: Path) -> House:
    """The database of these tests, and processes that use it."""
    return House(environment()["DATABASE_URL"], desk.sandbox.url, tmp_path / "log")


@pytest.fixture(scope="module")
def kept_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Tables that keep their rows from test to test, and are emptied after the last."""
    with django_db_blocker.unblock():
        yield
        call_command("flush", interactive=False, verbosity=0)
        connections.close_all()


@pytest.fixture(scope="module")
def proof(transactional_db: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proof]:
    """For tests that share one sandbox and its mirror; their `transactional_db` is `kept_db`."""
    log = tmp_path_factory.mktemp("proof") / "workers.log"
    with (
        running(users=30, orders=40, seed=23) as sandbox,
        proving(sandbox, environment(), log, OUTBOX_SEND_SECONDS=SEND_SECONDS) as made,
    ):
        yield made
