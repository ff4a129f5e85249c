"""Claim a due command: take a lease on its row, for one worker."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from backoffice.core import heartbeats
from backoffice.outbox import late_outcomes
from backoffice.outbox.command import KEY_LIFETIME, Command
from backoffice.outbox.models import CommandRecord

_CLAIM: Final = """
UPDATE outbox_commandrecord
SET lease_token = %s, lease_until = now() + make_interval(secs => %s)
WHERE id = (
 SELECT id FROM outbox_commandrecord
 WHERE {} AND due_at <= now() AND kind = ANY(%s)
  AND (lease_until IS NULL OR lease_until < now())
 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, now()
"""
_CLAIM_OPEN: Final = _CLAIM.format(
    "state IN ('waiting', 'uncertain', 'undecided')"
    f" AND (state <> 'waiting' OR {heartbeats.NOT_ON_HOLD})"
)
_CLAIM_ENDED: Final = _CLAIM.format(
    f"{late_outcomes.MAY_HAVE_HAPPENED}"
    f" AND finished_at > now() - interval '{late_outcomes.LOOKUP_PERIOD.days} days'"
)


class CommandClaim:
    """A claimed row, the time of the claim, and the lease token that is needed to close it."""

    def __init__(self, row: CommandRecord, token: UUID, at: datetime, kind: type[Command]) -> None:
        self.row, self.token, self.at = row, token, at
        self._kind = kind

    @cached_property
    def command(self) -> Command:
        """The command in the row. May raise any error: an older release may have written it."""
        return self._kind.read(self.row.payload)

    def is_key_old(self) -> bool:
        """Return whether the service may have forgotten the idempotency key."""
        keyed_at = self.row.keyed_at
        return keyed_at is not None and self.at - keyed_at >= KEY_LIFETIME


def claim_command(kinds: Sequence[type[Command]]) -> CommandClaim | None:
    """Claim the due command of these kinds that waits longest, open ones first; None if none."""
    by_kind = {kind.kind: kind for kind in kinds}
    token = uuid.uuid4()
    parameters: list[Any] = [token, settings.OUTBOX_LEASE_SECONDS, list(by_kind)]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_CLAIM_OPEN, parameters)
        claimed = cursor.fetchone()
        if claimed is None:
            cursor.execute(_CLAIM_ENDED, parameters)
            claimed = cursor.fetchone()
    if claimed is None:
        return None
    row = CommandRecord.objects.get(pk=claimed[0])
    return CommandClaim(row, token, claimed[1], by_kind[row.kind])
