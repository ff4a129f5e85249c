"""What people do: ask, withdraw, decide."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from celery import current_app
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.http import HttpRequest

from backoffice import audit
from backoffice.models import CommandRecord, User
from backoffice.outbox.command import Command

logger = logging.getLogger(__name__)

RINGING: Final = 0.3
"""Seconds that ringing may take: it is not the work."""
DECISIONS: Final = ("again", "exists", "give-up")


class Busy(Exception):
    """Somebody asked for something about the same thing, and that is still open."""

    def __init__(self, other: CommandRecord) -> None:
        super().__init__(other.pk)
        self.other = other


def ask(
    request: HttpRequest,
    command: Command,
    form_id: UUID,
    reason: str = "",
    typed: Mapping[str, list[str]] | None = None,
) -> CommandRecord:
    """Record a command with its audit entry, then ring. The same form sent twice is one command.

    `typed` is what the form held, to show it again after a refusal. Raises NotNow or Busy, and
    nothing is recorded then.
    """
    assert isinstance(request.user, User)
    same = CommandRecord.objects.filter(form_id=form_id, requested_by=request.user).first()
    if same is not None:
        return same
    command.check()
    row = _row(
        command,
        form_id=form_id,
        form_data=dict(typed or {}),
        requested_by=request.user,
        reason=reason,
    )
    subject_id = row.subject_id
    for last in (False, True):
        try:
            with transaction.atomic(durable=True):
                row.save(force_insert=True)
                audit.asked(request, row.kind, [row.pk, subject_id], [row.patient_id], reason)
        except IntegrityError:
            # Of this form, or about the same thing; what was open a moment ago may have ended.
            same = CommandRecord.objects.filter(form_id=form_id, requested_by=request.user).first()
            if same is not None:
                return same
            other = CommandRecord.objects.open().filter(lock=row.lock).first()
            if other is not None:
                raise Busy(other) from None
            if last:
                raise
        else:
            break
    _ring(command.task)
    row.refresh_from_db()
    return row


def follow(row: CommandRecord, command: Command) -> None:
    """Ask for the step after `row` in the name of who asked for that, with what they typed: in the
    transaction that closes `row`, once."""
    form_id = uuid.uuid5(row.pk, "then")
    if CommandRecord.objects.filter(form_id=form_id).exists():
        return
    step = _row(
        command,
        form_id=form_id,
        form_data=row.form_data,
        requested_by=row.requested_by,
        reason=row.reason,
    )
    if CommandRecord.objects.open().filter(lock=step.lock).exists():
        # Somebody asks for the like just now. The step waits its turn: it is checked before it is
        # sent, and to lose it would be worse.
        step.lock = ""
    step.save(force_insert=True)
    audit.followed(row.requested_by, step.kind, [step.pk, step.subject_id], [step.patient_id])


def _row(command: Command, **more: Any) -> CommandRecord:
    subject_type, subject_id = command.subject()
    return CommandRecord(
        kind=command.kind,
        title=command.title(),
        subject_type=subject_type,
        subject_id=subject_id,
        patient_id=command.patient(),
        lock=command.lock(),
        payload=command.payload(),
        form_url=command.form(),
        idempotency_key=uuid.uuid4(),
        **more,
    )


def withdraw(request: HttpRequest, command_id: UUID) -> bool:
    """Take back what was never sent; False when that is too late."""
    with transaction.atomic(durable=True):
        taken = CommandRecord.objects.filter(
            pk=command_id, state=CommandRecord.State.WAITING, first_sent_at=None
        ).update(state=CommandRecord.State.WITHDRAWN, finished_at=Now(), decided_by=request.user)
        if taken:
            _audited(request, command_id, "withdrawn")
    return bool(taken)


def decide(
    request: HttpRequest, command_id: UUID, attempt: int, decision: str, exists: str, reason: str
) -> bool:
    """A person decides what nobody else can. The decision names the attempt it was made on, so a
    second click or a faster colleague changes nothing; False then."""
    changes: dict[str, Any] = {"decided_by": request.user, "decision": decision}
    if decision == "again":
        changes |= {"state": CommandRecord.State.WAITING, "due_at": Now(), "refusal": ""}
    elif decision == "exists":
        changes |= {
            "state": CommandRecord.State.DONE,
            "remote_id": exists,
            "confirmed_by": "person",
            "finished_at": Now(),
        }
    else:
        changes |= {"state": CommandRecord.State.GIVEN_UP, "finished_at": Now()}
    with transaction.atomic(durable=True):
        decided = CommandRecord.objects.filter(
            pk=command_id, attempts=attempt, state=CommandRecord.State.UNDECIDED
        ).update(lease_token=None, lease_until=None, **changes)
        if decided:
            _audited(request, command_id, decision, reason)
    return bool(decided)


def _audited(request: HttpRequest, command_id: UUID, what: str, reason: str = "") -> None:
    row = CommandRecord.objects.get(pk=command_id)
    patients = [row.patient_id]
    audit.asked(request, f"{row.kind} {what}", [row.pk, row.subject_id], patients, reason)


def _ring(task: str) -> None:
    """Tell a worker to look now; unheard, the clock tells it within a second or two."""
    options = {"socket_timeout": RINGING, "socket_connect_timeout": RINGING, "max_retries": 0}
    try:
        with current_app.connection_for_write(
            connect_timeout=RINGING, transport_options=options
        ) as connection:
            current_app.send_task(
                task, connection=connection, queue="outbox", retry=False, expires=30
            )
    except Exception as error:
        logger.info("the bell was not heard: %s", type(error).__name__)
