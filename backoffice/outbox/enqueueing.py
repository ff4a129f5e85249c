"""The actions of people on commands: enqueue, withdraw, resolve. Also wakes a worker."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Container, Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from celery import current_app
from django.db import IntegrityError, transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Now
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.translation import gettext

from backoffice.accounts.access import staff_user
from backoffice.accounts.models import User
from backoffice.audit.recording import record_action, record_change, record_follow_up
from backoffice.core import request_ids
from backoffice.outbox.command import KEY_LIFETIME, Command, PreconditionFailed
from backoffice.outbox.late_outcomes import FIRST_LOOKUP_SECONDS
from backoffice.outbox.models import CommandRecord, CommandRecords

logger = logging.getLogger(__name__)

WAKE_TIMEOUT_SECONDS: Final = 0.3
"""Seconds that the message to a worker may take; the work does not depend on it."""
MAX_TITLE_LENGTH: Final = 200
"""Characters of a title."""
WRITTEN: Final = "written"
"""The name of the hidden field with the progress of a page: see `pages/drafts.py`."""
CONTROL_FIELDS: Final = ("csrfmiddlewaretoken", "form_id", WRITTEN)
DECISIONS: Final = ("again", "exists", "give-up")


class FormAlreadyUsed(PreconditionFailed):
    """The form was sent before, with other contents or by another person.

    It must be sent again as a new form.
    """


class Conflict(Exception):
    """Another command with the same lock is open."""

    def __init__(self, other: CommandRecord) -> None:
        super().__init__(other.pk)
        self.other = other


def enqueue(
    request: HttpRequest,
    command: Command,
    form_id: UUID,
    reason: str = "",
    typed: Mapping[str, list[str]] | None = None,
) -> CommandRecord:
    """Record a command with its audit entry, then wake a worker. Return the command's row.

    A form that is sent twice makes one command. `typed` is what the form contained, to show it
    again after a refusal. Raises PreconditionFailed or Conflict; then nothing is recorded.
    """
    user = staff_user(request)
    sent = CommandRecord.objects.filter(form_id=form_id)
    typed = dict(typed or {})
    earlier = _earlier_command(sent, user, typed)
    if earlier is not None:
        return earlier
    try:
        command.check()
    except PreconditionFailed:
        # After a double click the first command may be done by now: then "cancelled already" is
        # about that command.
        earlier = _earlier_command(sent, user, typed)
        if earlier is not None:
            return earlier
        raise
    row = _command_row(
        command,
        form_id=form_id,
        form_data=typed,
        requested_by=user,
        request_id=request_ids.request_id_of(request),
        reason=reason,
    )
    subject_id = row.subject_id
    before, after = command.difference()
    for is_last in (False, True):
        try:
            with transaction.atomic(durable=True):
                row.save(force_insert=True)
                record_change(
                    request,
                    row.kind,
                    [row.pk, subject_id],
                    before=before,
                    after=after,
                    patients=[row.patient_id],
                    reason=reason,
                )
        except IntegrityError:
            # Same form or same lock; the command that was open a moment ago may have ended.
            earlier = _earlier_command(sent, user, typed)
            if earlier is not None:
                return earlier
            other = CommandRecord.objects.open().filter(lock=row.lock).first()
            if other is not None:
                raise Conflict(other) from None
            if is_last:
                raise
        else:
            break
    wake_worker(command.task)
    row.refresh_from_db()
    return row


def was_already_sent(request: HttpRequest) -> bool:
    """Return whether this form was sent already: a second click, a reload, the back button.

    Its command may be done by now; checked again, it would fail.
    """
    try:
        form_id = UUID(request.POST.get("form_id", ""))
    except ValueError:
        return False
    sent = CommandRecord.objects.filter(form_id=form_id, requested_by=request.user.pk).first()
    return sent is not None and sent.form_data == typed_values(request)


def typed_values(request: HttpRequest) -> dict[str, list[str]]:
    """Return the values that a person entered in a form."""
    return storable_values(request.POST, CONTROL_FIELDS)


def storable_values(data: QueryDict, without: Container[str]) -> dict[str, list[str]]:
    """Return the values of a form as the database can store them, except those in `without`."""
    return {
        _storable_text(name): [_storable_text(value) for value in values]
        for name, values in data.lists()
        if name not in without
    }


def _storable_text(text: str) -> str:
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _earlier_command(
    sent: CommandRecords, user: User, typed: Mapping[str, list[str]]
) -> CommandRecord | None:
    """Return the command that this form made with the same values; None if there is none."""
    earlier = sent.first()
    if earlier is None:
        return None
    if earlier.requested_by_id != user.pk:
        raise FormAlreadyUsed(
            gettext("Someone else already sent this form. Send it again in your own name.")
        )
    if earlier.form_data != typed:
        raise FormAlreadyUsed(
            gettext(
                "This form was already sent with different entries: %(title)s, status: %(state)s. "
                "Send it again if you want both."
            )
            % {"title": gettext(earlier.title), "state": earlier.get_state_display()}
        )
    return earlier


def enqueue_next(row: CommandRecord, command: Command) -> None:
    """Enqueue the step after `row`, once, in the transaction that closes `row`.

    It has the same requester and form values.
    """
    form_id = uuid.uuid5(row.pk, "then")
    if CommandRecord.objects.filter(form_id=form_id).exists():
        return
    step = _command_row(
        command,
        form_id=form_id,
        form_data=row.form_data,
        requested_by=row.requested_by,
        request_id=row.request_id,
        reason=row.reason,
    )
    if CommandRecord.objects.open().filter(lock=step.lock).exists():
        # A command with the same lock is open. Enqueue the step without the lock: it is checked
        # before it is sent, and to lose it would be worse.
        step.lock = ""
    step.save(force_insert=True)
    record_follow_up(row.requested_by, step.kind, [step.pk, step.subject_id], [step.patient_id])


def _command_row(command: Command, **values: object) -> CommandRecord:
    subject_type, subject_id = command.subject()
    return CommandRecord(
        kind=command.kind,
        title=command.title()[:MAX_TITLE_LENGTH],
        subject_type=subject_type,
        subject_id=subject_id,
        patient_id=command.patient(),
        lock=command.lock_key(),
        payload=command.payload(),
        form_url=command.form_url(),
        idempotency_key=uuid.uuid4(),
        **values,
    )


def withdraw(request: HttpRequest, command_id: UUID) -> bool:
    """Withdraw a command that was never sent; return False if it is too late."""
    with transaction.atomic(durable=True):
        withdrawn = CommandRecord.objects.filter(
            pk=command_id, state=CommandRecord.State.WAITING, first_sent_at=None
        ).update(
            state=CommandRecord.State.WITHDRAWN,
            finished_at=Now(),
            decided_by=request.user,
            # A worker that has claimed it loses the lease, so it cannot close or release it.
            lease_token=None,
            lease_until=None,
        )
        if withdrawn:
            _audit_decision(request, command_id, "withdrawn")
    return bool(withdrawn)


def resolve(
    request: HttpRequest, command_id: UUID, attempt: int, decision: str, exists: str, reason: str
) -> bool:
    """Record a person's decision on an undecided command; return False if it came too late.

    The decision names the attempt it was made on, so a second click changes nothing, and neither
    does a slower colleague.
    """
    changes: dict[str, object] = {"decided_by": request.user, "decision": decision}
    if decision == "again":
        changes |= {"state": CommandRecord.State.WAITING, "due_at": Now(), "refusal": ""}
        if _needs_new_key(command_id):
            changes |= {"idempotency_key": uuid.uuid4(), "keys": F("keys") + 1, "keyed_at": None}
    elif decision == "exists":
        changes |= {
            "state": CommandRecord.State.DONE,
            "remote_id": exists,
            "confirmed_by": "person",
            "finished_at": Now(),
        }
    else:
        # It may still turn out to have happened: see `late_outcomes.py`.
        first_lookup_at = Now() + Value(timedelta(seconds=FIRST_LOOKUP_SECONDS))
        changes |= {
            "state": CommandRecord.State.GIVEN_UP,
            "finished_at": Now(),
            "due_at": first_lookup_at,
        }
    with transaction.atomic(durable=True):
        updated = CommandRecord.objects.filter(
            pk=command_id, attempts=attempt, state=CommandRecord.State.UNDECIDED
        ).update(lease_token=None, lease_until=None, **changes)
        if updated:
            _audit_decision(request, command_id, decision, reason)
    return bool(updated)


def _needs_new_key(command_id: UUID) -> bool:
    """Return whether the service keeps a failure for the key, or may have forgotten the key."""
    is_unusable = Q(status__gte=500) | Q(keyed_at__lt=timezone.now() - KEY_LIFETIME)
    return CommandRecord.objects.filter(is_unusable, pk=command_id).exists()


def _audit_decision(
    request: HttpRequest, command_id: UUID, decision: str, reason: str = ""
) -> None:
    row = CommandRecord.objects.get(pk=command_id)
    record_action(
        request, f"{row.kind} {decision}", [row.pk, row.subject_id], [row.patient_id], reason
    )


def wake_worker(task: str, queue: str = "outbox") -> None:
    """Send a Celery message that makes a worker look for work now.

    If the message is lost, beat sends another one within seconds.
    """
    options = {
        "socket_timeout": WAKE_TIMEOUT_SECONDS,
        "socket_connect_timeout": WAKE_TIMEOUT_SECONDS,
        "max_retries": 0,
    }
    try:
        with current_app.connection_for_write(
            connect_timeout=WAKE_TIMEOUT_SECONDS, transport_options=options
        ) as connection:
            current_app.send_task(task, connection=connection, queue=queue, retry=False, expires=30)
    except Exception as error:
        logger.info("a worker could not be woken: %s", type(error).__name__)
