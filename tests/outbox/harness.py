"""A harness for outbox tests: a sandbox without activity of its own, its mirror, and staff."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from backoffice.outbox import delivery
from backoffice.outbox.command import Command
from backoffice.outbox.models import CommandRecord
from backoffice.sync.lookups import run_due_lookups
from backoffice.sync.models import Lookup
from backoffice.sync.runs import sync_when_due
from labs import commands as labs_commands
from labs import sync as labs_sync
from orders import commands as orders_commands
from orders import sync as orders_sync
from patients import commands as patients_commands
from patients import sync as patients_sync
from tests.api.rows import staff
from tests.sandboxes import Sandbox
from webhooks import commands as webhooks_commands

COMMANDS: Sequence[type[Command]] = (
    *orders_commands.COMMANDS,
    *patients_commands.COMMANDS,
    *labs_commands.COMMANDS,
    *webhooks_commands.COMMANDS,
)
LOOKUP_TYPES = (*orders_sync.LOOKUP_TYPES, *patients_sync.LOOKUP_TYPES, *labs_sync.LOOKUP_TYPES)
FORM_ID = re.compile(r'name="form_id" value="([0-9a-f-]{36})"')


@dataclass
class OutboxHarness:
    """Acts as staff and as workers, and reads both the mirror and the sandbox."""

    sandbox: Sandbox

    def client(self, role: str = "administrator") -> Client:
        client = Client()
        client.force_login(staff(role))
        return client

    def sync_all(self) -> None:
        """Run the first sync and all scheduled lookups."""
        for synced_list in (
            *labs_sync.SYNCED_LISTS,
            *patients_sync.SYNCED_LISTS,
            orders_sync.ALL_ORDERS,
        ):
            sync_when_due(synced_list, seconds=60)
        self.run_lookups()

    def run_lookups(self) -> None:
        Lookup.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
        run_due_lookups(LOOKUP_TYPES, seconds=30)

    def submit_form(self, client: Client, address: str, **values: Any) -> HttpResponse:
        """Open a form and submit it with these values."""
        response = client.get(address)
        assert response.status_code == 200, response.status_code
        match = FORM_ID.search(response.content.decode())
        assert match, "no form"
        return client.post(address, {"form_id": match[1], **values})  # type: ignore[return-value]

    def deliver(self, commands: Sequence[type[Command]] = COMMANDS) -> None:
        """Deliver commands as workers do, until nothing is due."""
        while delivery.deliver(commands, seconds=5):
            pass

    def pass_time(self, seconds: float = 3600) -> None:
        """Let due times, leases and the settle time expire, then deliver."""
        past = timezone.now() - timedelta(seconds=seconds)
        open_commands = CommandRecord.objects.open()
        open_commands.exclude(lease_until=None).update(lease_until=past)
        open_commands.exclude(settle_until=None).update(settle_until=past)
        open_commands.update(due_at=past)
        self.deliver()

    def newest_command(self) -> CommandRecord:
        row = CommandRecord.objects.order_by("-requested_at", "-pk").first()
        assert row is not None, "no command was enqueued"
        return row

    def add_fault(self, kind: str, path: str, *, times: int = 1, **more: Any) -> None:
        """Let the next `times` calls of `path` fail: see `sandbox/faults.py`."""
        body = {"rate": 1, "kinds": [kind], "paths": path, "times": times, **more}
        self.sandbox.control("faults", body)

    def count(self, statement: str, *parameters: Any) -> int:
        """Return a count from the sandbox's own database."""
        return int(self.sandbox.query(statement, parameters)[0][0])
