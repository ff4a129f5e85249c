"""Real servers for every test: PostgreSQL, Redis and the sandbox as a process of its own.

`./run test` starts throw-away servers and sets the environment. To run pytest by hand, set `LOCAL`
to 1, and `DATABASE_URL` (of a superuser) and `REDIS_URL` to servers whose databases may be made and
dropped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.db.backends.postgresql.operations import DatabaseOperations

from backoffice.service import Service
from tests import emptying
from tests.sandboxes import Sandbox, SandboxFactory, running
from webhooks import receiving

# What gates a change must not depend on chance; HYPOTHESIS_PROFILE=default looks further.
hypothesis.settings.register_profile("gate", derandomize=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture(scope="session", autouse=True)
def quick_emptying() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", emptying.statements)
        yield


@pytest.fixture(autouse=True)
def no_door_left_open() -> Iterator[None]:
    """Groups of deliveries have a connection of their own: no database is dropped while it is
    open."""
    yield
    if receiving.door_of_groups.cache_info().currsize:
        receiving.door_of_groups().close()


@pytest.fixture(scope="module")
def sandbox_factory() -> Iterator[SandboxFactory]:
    """`sandbox_factory(users=, orders=, seed=, speed=)`: a new sandbox with its own database. It
    ends with the module: each is three processes and a score of connections."""
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Sandbox:
            return stack.enter_context(running(**options))

        yield start


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A small sandbox nothing moves in by itself, shared by the whole session: only read it."""
    with running() as sandbox:
        yield sandbox


@pytest.fixture
def service(sandbox: Sandbox) -> Iterator[Service]:
    """A client of the shared sandbox."""
    with sandbox.service() as client:
        yield client
