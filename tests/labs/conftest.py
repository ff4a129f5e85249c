"""Fixtures for report tests: folder, service URL, sandbox, people and a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from backoffice.accounts.models import User
from backoffice.core import service_client
from labs.models import Report
from tests.api.rows import staff
from tests.audit.trail import delete_all_entries
from tests.labs.reporting import attach_job, person, stored_report
from tests.sandboxes import Sandbox, running


@pytest.fixture
def report_folder(settings: Settings, tmp_path: Path) -> Path:
    """The folder of uploaded files during a test."""
    settings.REPORT_FOLDER = tmp_path / "reports"
    return tmp_path / "reports"


@pytest.fixture
def set_service_url(settings: Settings) -> Iterator[Callable[[str], None]]:
    """Return a function that points the back office at a service."""

    def set_url(url: str) -> None:
        settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = url
        service_client.service.cache_clear()

    yield set_url
    service_client.service.cache_clear()


@pytest.fixture(scope="package")
def parsing_sandbox() -> Iterator[Sandbox]:
    """A sandbox with report jobs that advance only on request."""
    with running(users=5, orders=5) as sandbox:
        yield sandbox


@pytest.fixture
def service_sandbox(
    parsing_sandbox: Sandbox, set_service_url: Callable[[str], None]
) -> Iterator[Sandbox]:
    """The parsing sandbox as the service, without faults and chosen outcomes of earlier tests."""
    set_service_url(parsing_sandbox.url)
    try:
        yield parsing_sandbox
    finally:
        parsing_sandbox.control("faults", method="DELETE")
        parsing_sandbox.control(
            "reports", {"next_outcomes": [], "review_enabled": True, "steps": 3}
        )


@pytest.fixture
def doctor(client: Client) -> User:
    user = staff("clinician")
    client.force_login(user)
    person(1)
    return user


@pytest.fixture
def report(doctor: User) -> Report:
    """A report with parsed values."""
    report = stored_report(doctor)
    attach_job(report)
    delete_all_entries()
    return report


@pytest.fixture
def front_desk_user(client: Client) -> User:
    user = staff("front desk")
    client.force_login(user)
    person(1)
    return user
