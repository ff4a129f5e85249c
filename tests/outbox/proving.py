"""What the proofs of the outbox share: both sides, staff who ask and decide, workers to kill."""

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

from backoffice import outbox
from backoffice.core import service_client
from backoffice.models import CommandRecord, User
from tests.outbox import workers
from tests.outbox.desk import Desk
from tests.outbox.scene import Scene
from tests.outbox.workers import Workers
from tests.sandboxes import Sandbox
from tests.sync.house import wait_until

SEND_SECONDS = 4
State = CommandRecord.State
NOT_CARRIED_OUT = ("status", "drop_before", "html", "redirect")
"""Faults that stand in the place of the work."""


@dataclass
class Proof:
    desk: Desk
    scene: Scene
    workers: Workers
    user: User

    def request(self) -> HttpRequest:
        request = RequestFactory().post("/")
        request.user = self.user
        return request

    def asked(self, command: outbox.Command) -> CommandRecord:
        return outbox.enqueue(self.request(), command, uuid.uuid4())

    def resolve(self, row: CommandRecord, happened: bool) -> None:
        """What a person does who has found out whether it happened."""
        row.refresh_from_db()
        exists = row.found[0]["id"] if row.found else ""
        words = ("exists" if exists else "give-up") if happened else "again"
        assert outbox.resolve(self.request(), row.pk, row.attempts, words, exists, "found out")

    def time_passes(self, settled: bool = True) -> None:
        """Leases and waiting are over, and settling, but for rows that a stopped worker has locked.
        Not `settled`: what was sent may still arrive at the service."""
        past = timezone.now() - timedelta(hours=1)
        with transaction.atomic():
            rows = CommandRecord.objects.open()
            free = [row.pk for row in rows.select_for_update(skip_locked=True)]
        rows = CommandRecord.objects.filter(pk__in=free)
        if settled:
            rows.exclude(settle_until=None).update(settle_until=past)
        rows.exclude(lease_until=None).update(lease_until=past)
        rows.update(due_at=past)

    def last_write(self) -> int:
        return int(self.scene.sandbox.control("writes?since=1000000000")["last"])

    def writes(self, since: int, path: str = "", least: int = 0) -> list[dict[str, Any]]:
        """The calls that came since, once they have all been carried out that will be: so many at
        least."""
        found: list[dict[str, Any]] = []

        def over() -> bool:
            found[:] = self.scene.sandbox.control(f"writes?since={since}")["writes"]
            came = sum(bool(re.search(path, one["path"])) for one in found)
            return came >= least and all(
                one["status"] or one["fault"] in NOT_CARRIED_OUT for one in found
            )

        wait_until(over, 60, "what came to the sandbox to be carried out")
        return [one for one in found if re.search(path, one["path"])]


@contextlib.contextmanager
def proving(
    sandbox: Sandbox, environment: Mapping[str, str], log: Path, **settings: Any
) -> Iterator[Proof]:
    """This process asks and counts; the workers are others, with the same settings."""
    urls = {"SERVICE_BASE_URL": sandbox.url, "MANAGEMENT_BASE_URL": sandbox.url}
    theirs = {name: str(value) for name, value in {**urls, **settings}.items()}
    with override_settings(**urls, **settings):
        service_client.service.cache_clear()
        desk = Desk(sandbox)
        desk.mirror()
        user = User.objects.create_user("coordinator", first_name="Lars", last_name="Madeup")
        scene = Scene(sandbox)
        try:
            with workers.ready({**environment, **theirs}, log) as ready:
                yield Proof(desk, scene, ready, user)
        finally:
            scene.close()
            service_client.service.cache_clear()


def history(row: CommandRecord) -> str:
    return ", ".join(f"{one.phase} {one.outcome}" for one in row.history.order_by("pk"))
