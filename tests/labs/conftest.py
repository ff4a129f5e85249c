"""Reports need a folder of their own, and a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from backoffice.core import service_client
from tests.sandboxes import Sandbox, running


@pytest.fixture
def folder(settings: Settings, tmp_path: Path) -> Path:
    """Where uploaded files are kept during a test."""
    settings.REPORT_FOLDER = tmp_path / "reports"
    return tmp_path / "reports"


@pytest.fixture
def point(settings: Settings) -> Iterator[Callable[[str], None]]:
    """Points the back office at a service."""

    def at(url: str) -> None:
        settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = url
        service_client.service.cache_clear()

    yield at
    service_client.service.cache_clear()


@pytest.fixture(scope="package")
def parser() -> Iterator[Sandbox]:
    """A sandbox whose report jobs move when told to."""
    with running(users=5, orders=5) as sandbox:
        yield sandbox


@pytest.fixture
def reading(parser: Sandbox, point: Callable[[str], None]) -> Iterator[Sandbox]:
    """That sandbox as the service, with no faults left behind and no outcomes chosen."""
    point(parser.url)
    try:
        yield parser
    finally:
        parser.control("faults", method="DELETE")
        parser.control("reports", {"next_outcomes": [], "review_enabled": True, "steps": 3})
