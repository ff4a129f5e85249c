"""One sandbox for all outbox tests. Each test starts from its first state and a mirror of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.models import F, Max
from django.utils import timezone
from pytest_django import DjangoDbBlocker, Settings

from backoffice.core import service_client
from labs.models import LabAccount, LabTest, Marker
from orders.models import Order
from orders.placing.patient_rules import is_name
from patients.models import Demographics
from tests.outbox.database_rows import TableRows, copy_rows, restore_rows
from tests.outbox.harness import OutboxHarness
from tests.outbox.keys import UseKey
from tests.outbox.worker_setup import SEND_SECONDS, WorkerSetup, set_up_workers
from tests.outbox.workers import environment
from tests.sandboxes import Sandbox, running
from tests.sync.back_office import BackOffice


@pytest.fixture(scope="package")
def outbox_sandbox() -> Iterator[Sandbox]:
    with running(users=20, orders=150, seed=11) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def initial_rows() -> dict[str, TableRows]:
    """Rows of both databases after the first sync, by database URL."""
    return {}


@pytest.fixture
def harness(
    outbox_sandbox: Sandbox,
    initial_rows: dict[str, TableRows],
    settings: Settings,
    transactional_db: None,
) -> Iterator[OutboxHarness]:
    """A current mirror, and a sandbox without faults."""
    settings.SERVICE_BASE_URL = settings.MANAGEMENT_BASE_URL = outbox_sandbox.url
    service_client.service.cache_clear()
    harness = OutboxHarness(outbox_sandbox)
    for database_url, rows in initial_rows.items():
        restore_rows(database_url, rows)
    if not initial_rows:
        harness.sync_all()
        for database_url in (environment()["DATABASE_URL"], outbox_sandbox.database_url):
            initial_rows[database_url] = copy_rows(database_url)
    try:
        yield harness
    finally:
        outbox_sandbox.control("faults", method="DELETE")
        service_client.service.cache_clear()


@pytest.fixture
def use_key(harness: OutboxHarness, settings: Settings) -> Iterator[UseKey]:
    """Sets the API key, as a restart with another setting does."""

    def use(key: str) -> None:
        settings.SERVICE_API_KEY = key
        service_client.service.cache_clear()

    yield use
    harness.sandbox.control("answers", method="DELETE")
    service_client.service.cache_clear()


@pytest.fixture
def back_office(harness: OutboxHarness, tmp_path: Path) -> BackOffice:
    """Processes that use the database of these tests."""
    return BackOffice(environment()["DATABASE_URL"], harness.sandbox.url, tmp_path / "log")


@pytest.fixture(scope="module")
def module_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Tables that keep their rows between the tests of a module and are emptied at its end."""
    with django_db_blocker.unblock():
        yield
        call_command("flush", interactive=False, verbosity=0)
        connections.close_all()


@pytest.fixture(scope="module")
def worker_setup(
    transactional_db: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerSetup]:
    """For tests that share one sandbox and its mirror.

    They override `transactional_db` with `module_database`.
    """
    log = tmp_path_factory.mktemp("workers") / "workers.log"
    with (
        running(users=30, orders=40, seed=23) as sandbox,
        set_up_workers(sandbox, environment(), log, OUTBOX_SEND_SECONDS=SEND_SECONDS) as setup,
    ):
        yield setup


@pytest.fixture
def person(harness: OutboxHarness) -> Demographics:
    """An adult whom labs accept, with the oldest last order: the sandbox is shared."""
    known = Demographics.objects.filter(dob__lt=date(2000, 1, 1)).exclude(zip="").exclude(email="")
    by_last_order = known.annotate(last=Max("user__orders__created_at")).order_by(
        F("last").asc(nulls_first=True), "pk"
    )
    patient = next(
        one for one in by_last_order if is_name(one.first_name) and is_name(one.last_name)
    )
    Order.objects.filter(user_id=patient.pk).update(created_at=timezone.now() - timedelta(days=90))
    return patient


@pytest.fixture
def panel(harness: OutboxHarness) -> LabTest:
    """A lab test that needs no physician and, if possible, no answers to questions."""
    account = LabAccount.objects.get(lab="lab-south", status="active")
    assert account.delegated_flow == "result_delegated"
    tests = LabTest.objects.filter(lab__slug="lab-south", status="active", auto_generated=False)
    markers_with_questions = Marker.objects.filter(has_questions=True)
    plain_test = (
        tests.exclude(test_markers__marker__in=markers_with_questions).order_by("name").first()
    )
    return plain_test or tests.order_by("name")[0]
