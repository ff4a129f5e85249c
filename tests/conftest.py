"""Real servers for every test: PostgreSQL, Redis and the sandbox in a process of its own.

`./run test` starts temporary servers and sets the environment. To run pytest by hand, set `LOCAL`
to 1, and `DATABASE_URL` (of a superuser) and `REDIS_URL` to servers on which databases may be
created and dropped.
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
from pytest_django import Settings
from whitenoise.middleware import WhiteNoiseMiddleware

from backoffice.service import Service
from tests import databases, password_hashing, table_clearing
from tests.rendered_templates import use_strict_templates
from tests.sandboxes import Sandbox, SandboxFactory, running
from tests.team.mail_server import MailServer, run_mail_server
from webhooks import receiving

# Checks of a change must not depend on chance; HYPOTHESIS_PROFILE=default searches further.
hypothesis.settings.register_profile(
    "gate", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Copy the database of the tests from a template, too."""
    connection.settings_dict["TEST"]["TEMPLATE"] = databases.migrated_template(
        os.environ["DATABASE_URL"]
    )


@pytest.fixture(scope="session", autouse=True)
def fast_table_clearing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "sql_flush", table_clearing.flush_statements)
        yield


@pytest.fixture(scope="session", autouse=True)
def jinja_templates_reported() -> None:
    use_strict_templates()


@pytest.fixture(scope="session", autouse=True)
def static_files_cached() -> Iterator[None]:
    """Find static files only once.

    Every client of a test starts the middleware, which otherwise searches all static files: longer
    than most pages take.
    """
    add_files = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def look_once(self: WhiteNoiseMiddleware) -> None:
        if not found:
            add_files(self)
            found.update(self.files)
        self.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", look_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def fast_password_hashing() -> Iterator[None]:
    """Use Argon2 with the least work: the real amount takes a quarter of a second for each hash."""
    with pytest.MonkeyPatch.context() as patch:
        password_hashing.set_cost(patch, password_hashing.MINIMAL)
        yield


@pytest.fixture(autouse=True)
def close_group_connection() -> Iterator[None]:
    """Close the connection for groups of deliveries: an open one prevents dropping the database."""
    yield
    if receiving.group_connection.cache_info().currsize:
        receiving.group_connection().close()


@pytest.fixture(scope="module")
def sandbox_factory() -> Iterator[SandboxFactory]:
    """`sandbox_factory(users=, orders=, seed=, speed=)`: a new sandbox with its own database.

    It ends with the module, because each sandbox has three processes and about twenty connections.
    """
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Sandbox:
            return stack.enter_context(running(**options))

        yield start


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A small sandbox in which nothing changes by itself, shared by the whole session: only read
    it."""
    with running() as sandbox:
        yield sandbox


@pytest.fixture
def service(sandbox: Sandbox) -> Iterator[Service]:
    """A client of the shared sandbox."""
    with sandbox.service() as client:
        yield client


@pytest.fixture
def mail_server(settings: Settings) -> Iterator[MailServer]:
    """The mail server of the back office, which takes every message."""
    with run_mail_server() as server:
        settings.EMAIL_URL, settings.EMAIL_FROM = server.url, "office@clinic.invalid"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.SITE_URL = "https://office.invalid"
        yield server
