"""Setup for tests with workers in other processes, which can be killed or stopped."""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.test import RequestFactory, override_settings
from django.utils import timezone

from backoffice.accounts.models import User
from backoffice.core import service_client
from backoffice.outbox import enqueueing
from backoffice.outbox.command import Command
from backoffice.outbox.models import CommandRecord
from tests.outbox import workers
from tests.outbox.harness import OutboxHarness
from tests.outbox.records import SandboxRecords
from tests.outbox.workers import Workers
from tests.sandboxes import Sandbox
from tests.waiting import wait_until

SEND_SECONDS = 4
State = CommandRecord.State
FAULTS_INSTEAD_OF_WORK = ("status", "drop_before", "html", "redirect")
"""Faults with which the sandbox does not carry out the call."""


@dataclass
class WorkerSetup:
    harness: OutboxHarness
    records: SandboxRecords
    workers: Workers
    user: User

    def request(self) -> HttpRequest:
        request = RequestFactory().post("/")
        request.user = self.user
        return request

    def enqueue(self, command: Command) -> CommandRecord:
        return enqueueing.enqueue(self.request(), command, uuid.uuid4())

    def resolve(self, row: CommandRecord, happened: bool) -> None:
        """Resolve as a person who knows whether the command was carried out."""
        row.refresh_from_db()
        record_id = row.found[0]["id"] if row.found else ""
        decision = ("exists" if record_id else "give-up") if happened else "again"
        assert enqueueing.resolve(
            self.request(), row.pk, row.attempts, decision, record_id, "found out"
        )

    def expire_waits(self, include_settling: bool = True) -> None:
        """Let leases, due times and the settle time expire.

        Rows that a stopped worker has locked are skipped. Without `include_settling` a request
        that was sent may still arrive at the service.
        """
        past = timezone.now() - timedelta(hours=1)
        with transaction.atomic():
            rows = CommandRecord.objects.open()
            free = [row.pk for row in rows.select_for_update(skip_locked=True)]
        rows = CommandRecord.objects.filter(pk__in=free)
        if include_settling:
            rows.exclude(settle_until=None).update(settle_until=past)
        rows.exclude(lease_until=None).update(lease_until=past)
        rows.update(due_at=past)

    def last_write_number(self) -> int:
        return int(self.records.sandbox.control("writes?since=1000000000")["last"])

    def writes(self, since: int, path: str = "", at_least: int = 0) -> list[dict[str, Any]]:
        """Return the writes after number `since` to `path`.

        Waits until there are `at_least` so many and every call has been carried out or never
        will be.
        """
        writes: list[dict[str, Any]] = []

        def are_carried_out() -> bool:
            writes[:] = self.records.sandbox.control(f"writes?since={since}")["writes"]
            count = sum(bool(re.search(path, one["path"])) for one in writes)
            return count >= at_least and all(
                one["status"] or one["fault"] in FAULTS_INSTEAD_OF_WORK for one in writes
            )

        wait_until(are_carried_out, 60, "the sandbox to carry out all calls")
        return [one for one in writes if re.search(path, one["path"])]


@contextlib.contextmanager
def set_up_workers(
    sandbox: Sandbox, environment: Mapping[str, str], log: Path, **settings: Any
) -> Iterator[WorkerSetup]:
    """Enqueue and count in this process, and deliver in worker processes with its settings."""
    urls = {"SERVICE_BASE_URL": sandbox.url, "MANAGEMENT_BASE_URL": sandbox.url}
    worker_settings = {name: str(value) for name, value in {**urls, **settings}.items()}
    with override_settings(**urls, **settings):
        service_client.service.cache_clear()
        harness = OutboxHarness(sandbox)
        harness.sync_all()
        user = User.objects.create_user("coordinator", first_name="Lars", last_name="Madeup")
        records = SandboxRecords(sandbox)
        try:
            with workers.start_workers({**environment, **worker_settings}, log) as running_workers:
                yield WorkerSetup(harness, records, running_workers, user)
        finally:
            records.close()
            service_client.service.cache_clear()


def attempt_history(row: CommandRecord) -> str:
    return ", ".join(f"{one.phase} {one.outcome}" for one in row.history.order_by("pk"))
