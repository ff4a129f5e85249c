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
from django.db import connection
from django.db.backends.postgresql.operations import DatabaseOperations
from whitenoise.middleware import WhiteNoiseMiddleware

from backoffice.service import Service
from tests import databases, emptying, hashing
from tests.sandboxes import Sandbox, SandboxFactory, running
from webhooks import receiving

# What gates a change must not depend on chance; HYPOTHESIS_PROFILE=default looks further.
hypothesis.settings.register_profile(
    "gate", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """The database of the tests is a copy, too."""
    connection.settings_dict["TEST"]["TEMPLATE"] = databases.house(os.environ["DATABASE_URL"])


@pytest.fixture(scope="session", autouse=True)
def quick_emptying() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", emptying.statements)
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Every client of a test starts the middleware anew, and one of them looks for each static
    file there is: longer than most pages take."""
    look = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def look_once(self: WhiteNoiseMiddleware) -> None:
        if not found:
            look(self)
            found.update(self.files)
        self.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", look_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Argon2 as ever, with the least work: the real amount takes a quarter of a second each."""
    with pytest.MonkeyPatch.context() as patch:
        hashing.works(patch, hashing.LEAST)
        yield


@pytest.fixture(autouse=True)
def no_door_left_open() -> Iterator[None]:
    """Groups of deliveries have a connection of their own: no database is dropped while it is
    open."""
    yield
    if receiving.group_connection.cache_info().currsize:
        receiving.group_connection().close()


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
