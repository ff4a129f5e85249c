"""Housekeeping of commands: lost leases, the reason of a hold, contents of ended commands."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import Value
from django.db.models.functions import Now

from backoffice.core import heartbeats
from backoffice.outbox.models import CommandAttempt, CommandRecord

State = CommandRecord.State

CONTENTS_RETENTION: Final = timedelta(days=30)
"""How long an ended command keeps its contents, which are health data. The form for the correction
of a refused command is filled with them."""

_EXPLAIN = f"""
UPDATE outbox_commandrecord SET hindrance = %s
WHERE state = 'waiting' AND hindrance = '' AND NOT ({heartbeats.NOT_ON_HOLD})
"""


def mark_lost_sendings() -> None:
    """Mark sendings with an expired lease as uncertain: the service may have received them."""
    with transaction.atomic(durable=True):
        lost = CommandRecord.objects.filter(state=State.SENDING, lease_until__lt=Now())
        rows = list(lost.select_for_update(skip_locked=True))
        CommandRecord.objects.filter(pk__in=[row.pk for row in rows]).update(
            state=State.UNCERTAIN, doubted=True, lease_token=None, due_at=Now()
        )
        CommandAttempt.objects.bulk_create(
            CommandAttempt(
                command=row, phase="send", began_at=row.sent_at or row.requested_at, outcome="lost"
            )
            for row in rows
        )


def explain_hold() -> None:
    """Write the reason into waiting commands while sending is on hold."""
    with connection.cursor() as cursor:
        cursor.execute(_EXPLAIN, [heartbeats.ON_HOLD])


def erase_contents() -> int:
    """Erase the contents of old ended commands; requester, kind and outcome stay."""
    ended = CommandRecord.objects.exclude(state__in=CommandRecord.OPEN).filter(
        finished_at__lt=Now() - Value(CONTENTS_RETENTION)
    )
    return ended.exclude(payload={}, form_data={}).update(payload={}, form_data={})
