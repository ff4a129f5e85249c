"""A desk under test: a sandbox nothing moves in by itself, its mirror, and staff in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from backoffice import outbox, sync
from backoffice.models import CommandRecord, Lookup
from labs import commands as labs_commands
from labs import sync as labs_sync
from orders import commands as orders_commands
from orders import sync as orders_sync
from patients import commands as patients_commands
from patients import sync as patients_sync
from tests.api.rows import staff
from tests.sandboxes import Sandbox
from webhooks import commands as webhooks_commands

COMMANDS: Sequence[type[outbox.Command]] = (
    *orders_commands.COMMANDS,
    *patients_commands.COMMANDS,
    *labs_commands.COMMANDS,
    *webhooks_commands.COMMANDS,
)
LOOKUP_TYPES = (*orders_sync.LOOKUP_TYPES, *patients_sync.LOOKUP_TYPES, *labs_sync.LOOKUP_TYPES)
FORM_ID = re.compile(r'name="form_id" value="([0-9a-f-]{36})"')


@dataclass
class Desk:
    """What a test needs to act as staff and look at both sides."""

    sandbox: Sandbox

    def client(self, role: str = "administrator") -> Client:
        client = Client()
        client.force_login(staff(role))
        return client

    def mirror(self) -> None:
        """The first sync, and every look-up there is a reason for."""
        for synced_list in (
            *labs_sync.SYNCED_LISTS,
            *patients_sync.SYNCED_LISTS,
            orders_sync.SWEEP,
        ):
            sync.tick(synced_list, seconds=60)
        self.look_up()

    def look_up(self) -> None:
        Lookup.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
        sync.run_due_lookups(LOOKUP_TYPES, seconds=30)

    def fill(self, client: Client, address: str, **values: Any) -> HttpResponse:
        """Open a form, fill it, send it."""
        shown = client.get(address)
        assert shown.status_code == 200, shown.status_code
        found = FORM_ID.search(shown.content.decode())
        assert found, "no form"
        return client.post(address, {"form_id": found[1], **values})  # type: ignore[return-value]

    def deliver(self, commands: Sequence[type[outbox.Command]] = COMMANDS) -> None:
        """What workers do until nothing is due."""
        while outbox.deliver(commands, seconds=5):
            pass

    def later(self, seconds: float = 3600) -> None:
        """Let the time of waiting, leases and settling be over, then do what is due."""
        past = timezone.now() - timedelta(seconds=seconds)
        open_rows = CommandRecord.objects.open()
        open_rows.exclude(lease_until=None).update(lease_until=past)
        open_rows.exclude(settle_until=None).update(settle_until=past)
        open_rows.update(due_at=past)
        self.deliver()

    def newest(self) -> CommandRecord:
        row = CommandRecord.objects.order_by("-requested_at", "-pk").first()
        assert row is not None, "nothing was asked"
        return row

    def fault(self, kind: str, path: str, *, times: int = 1, **more: Any) -> None:
        """The next `times` calls of `path` go wrong: see `sandbox/faults.py`."""
        body = {"rate": 1, "kinds": [kind], "paths": path, "times": times, **more}
        self.sandbox.control("faults", body)

    def count(self, statement: str, *parameters: Any) -> int:
        """A figure of the sandbox's own database."""
        return int(self.sandbox.query(statement, parameters)[0][0])


Desks = Callable[..., Desk]
