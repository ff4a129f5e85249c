"""Deliver commands: claim, check, send with no transaction open, settle, close.

Every update of a row compares the lease token: a worker that was paused past its lease no longer
holds the row. Its late answer is still stored in the mirror. The answer closes a command that is
open and not being sent again, and one that a person gave up meanwhile (`late_outcomes.py`). All
times are the database's, since clocks may differ.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection, transaction
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_noop

from backoffice.core import request_ids, service_team, shutdown
from backoffice.core.encryption import encrypted_fields
from backoffice.core.service_client import service
from backoffice.outbox import late_outcomes, maintenance
from backoffice.outbox.attempts import AttemptLog
from backoffice.outbox.claims import CommandClaim, claim_command
from backoffice.outbox.command import (
    Ambiguous,
    Command,
    Confirmed,
    Disproved,
    PreconditionFailed,
    ResendPolicy,
    send_context,
)
from backoffice.outbox.enqueueing import enqueue_next
from backoffice.outbox.models import CommandRecord
from backoffice.outbox.refusal_messages import obstacle_message, refusal_message
from backoffice.service import errors

logger = logging.getLogger(__name__)

State = CommandRecord.State

MAX_UNCERTAIN_SENDINGS: Final = 5
"""Sendings with unknown outcome before a person must decide."""
LOOKUP_DELAYS: Final = (2, 5, 15, 45, 120)
"""Seconds until the next lookup of an uncertain command."""
UNDECIDED_LOOKUP_SECONDS: Final = 600
"""Seconds between lookups while a person has not decided."""
MAX_DELAY: Final = 300
MAX_TASK_SECONDS: Final = 80
"""Seconds a task may run: it starts nothing after its slice, and one sending takes less."""
CONCLUSIVE_ERRORS: Final = (errors.Missing, errors.Denied)
"""Answers to a lookup that will hardly change by themselves."""
GONE: Final = gettext_noop("The record of this request no longer exists at the lab service.")
INTERNAL_ERROR: Final = gettext_noop("An error in the back office is delaying this. It was logged.")
NOT_SENT: Final = gettext_noop(
    "An error in the back office kept this from being sent. Nothing happened."
)

CANNOT_DECRYPT: Final = gettext_noop(
    "The contents of this request cannot be decrypted with the current keys (FIELD_KEYS). "
    "It will be retried. Nothing is lost."
)

_BEGIN = """
UPDATE outbox_commandrecord SET state = 'sending', attempts = attempts + 1, sent_at = now(),
 first_sent_at = coalesce(first_sent_at, now()), keyed_at = coalesce(keyed_at, now()), looks = 0,
 status = NULL, hindrance = '',
 lease_until = now() + make_interval(secs => %s),
 settle_until = now() + make_interval(secs => %s)
WHERE id = %s AND lease_token = %s AND state = 'waiting' AND lease_until > now()
"""


def deliver(kinds: Sequence[type[Command]], seconds: float = 20) -> int:
    """Send and settle due commands for about `seconds`; return how many rows were processed."""
    maintenance.mark_lost_sendings()
    maintenance.explain_hold()
    late_outcomes.make_changed_due()
    ends = time.monotonic() + seconds
    done = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        claim = claim_command(kinds)
        if claim is None:
            break
        with request_ids.use_request_id(claim.row.request_id):
            _deliver(claim)
        done += 1
    return done


def _deliver(claim: CommandClaim) -> None:
    try:
        _process(claim)
    except BaseException as error:
        _handle_fault(claim, error)
        if isinstance(error, SoftTimeLimitExceeded) or not isinstance(error, Exception):
            raise


def _process(claim: CommandClaim) -> None:
    row = claim.row
    if encrypted_fields.is_unreadable(row, "payload"):
        logger.error("the contents of command %s cannot be opened with FIELD_KEYS", row.pk)
        _retry_unchanged(claim, CANNOT_DECRYPT)
        return
    if not _is_our_team(claim):
        return
    if not row.is_open:
        _look_up_ended(claim)
        return
    needs_same_key = row.doubted and claim.command.resend_policy is ResendPolicy.SAME_KEY
    if row.state == State.WAITING and not (needs_same_key and claim.is_key_old()):
        _send(claim)
    else:
        _settle(claim)


def _is_our_team(claim: CommandClaim) -> bool:
    """Return whether the key belongs to our team; else put the claim back.

    The service shows another team none of our records: its answers prove nothing, and nothing may
    be sent with that key. Also return False if the service does not answer.
    """
    try:
        service_team.verified_service()
    except service_team.AnotherTeam as error:
        logger.error("a command was not processed: %s", error)
        _retry_unchanged(claim, service_team.ANOTHER_TEAM)
    except errors.ServiceError as error:
        if claim.row.state == State.WAITING:
            _retry_later(claim, error)
        elif claim.row.is_open:
            _look_up_failed(claim, error)
        else:
            _schedule_ended_lookup(claim)
    else:
        return True
    return False


def _send(claim: CommandClaim) -> None:
    command, row = claim.command, claim.row
    try:
        command.refresh(service())
        command.check()
        if row.first_sent_at is None:
            command.record_state_before()
    except PreconditionFailed as error:
        # "Cancelled already" may be exactly the requested result, no matter who cancelled.
        fields = [{"field": error.field, "path": "", "words": error.message}] if error.field else []
        look = row.doubted or command.resend_policy is ResendPolicy.SAME_EFFECT
        _refuse(claim, error.message, look=look, refusal_fields=fields)
        return
    except errors.Missing:
        _refuse(claim, GONE, look=row.doubted)
        return
    except errors.ServiceError as error:
        _retry_later(claim, error)
        return
    if shutdown.is_requested():
        _update(claim, state=State.WAITING, due_at=Now())
        return
    # Set the deadline before the state "sending" is written: a worker that is paused from here on
    # sends nothing when it continues after its lease.
    ends = time.monotonic() + settings.OUTBOX_SEND_SECONDS
    if not _mark_sending(claim):
        logger.warning("another worker took over a command before it was sent")
        return
    row.refresh_from_db()
    with AttemptLog(claim.row, "send") as attempt:
        try:
            answer = command.send(service().until(ends), send_context(row))
        except errors.ServiceError as error:
            attempt.record(_outcome(error), error)
            _handle_send_error(claim, error)
        else:
            attempt.record("answered", None)
            _complete(claim, answer, "answer")


def _mark_sending(claim: CommandClaim) -> bool:
    """Set the state "sending" before the first byte is sent; return False if the lease is lost."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            _BEGIN,
            [
                settings.OUTBOX_LEASE_SECONDS,
                settings.OUTBOX_SETTLE_SECONDS,
                claim.row.pk,
                claim.token,
            ],
        )
        if not cursor.rowcount:
            return False
        payload = claim.command.payload()
        if payload != claim.row.payload:
            claim.row.payload = payload
            claim.row.save(update_fields=["payload"])
    return True


def _outcome(error: errors.ServiceError) -> str:
    """Classify the error of a sending: uncertain, limited, unreachable or refused."""
    if isinstance(error, errors.Uncertain) or error.route.startswith("GET "):
        return "uncertain"  # A read beside the write failed: that proves nothing about the write.
    if isinstance(error, errors.Limited):
        return "limited"
    if isinstance(error, errors.Unreachable):
        # Only this class itself, no subclass, means that nothing was sent.
        return "unreachable" if type(error) is errors.Unreachable else "uncertain"
    return "refused"


def _handle_send_error(claim: CommandClaim, error: errors.ServiceError) -> None:
    outcome = _outcome(error)
    if outcome == "uncertain":
        _mark_uncertain(claim, status=error.status)
    elif outcome == "refused":
        message, fields = refusal_message(error, claim.command)
        look = claim.row.doubted or claim.command.resend_policy is ResendPolicy.SAME_EFFECT
        _refuse(claim, message, look=look, refusal_fields=fields, status=error.status)
    else:
        _retry_later(claim, error)


def _refuse(claim: CommandClaim, message: str, *, look: bool, **refusal: object) -> None:
    """Handle a refusal by the service or by our own check.

    If the command may have happened before, the service is asked first (`look`): "slot no longer
    available" may be our own booking, "already canceled" our own cancellation. After a sending
    with unknown outcome a refusal proves nothing: if the lookups do not show the outcome, a person
    decides.
    """
    row, settlement = claim.row, None
    if look:
        try:
            settlement = claim.command.settle(service(), send_context(row))
        except errors.ServiceError:
            if row.first_sent_at is not None:
                _look_up_after_refusal(claim, message, **refusal)
                return
    if isinstance(settlement, Confirmed):
        _complete(claim, settlement.answer, "look-up")
    elif not row.doubted:
        _close(claim, State.REFUSED, refusal=message, **refusal)
    elif isinstance(settlement, Disproved):
        _close(claim, State.REFUSED, refusal=settlement.message)
    elif isinstance(settlement, Ambiguous):
        _mark_undecided(claim, settlement, refusal=message, **refusal)
    else:
        _look_up_after_refusal(claim, message, **refusal)


def _look_up_after_refusal(claim: CommandClaim, message: str, **refusal: object) -> None:
    _update(
        claim,
        state=State.UNCERTAIN,
        due_at=_seconds_from_now(LOOKUP_DELAYS[0]),
        refusal=message,
        **refusal,
    )


def _settle(claim: CommandClaim) -> None:
    """Look the command up at the service, and close it or decide the next step."""
    row, command = claim.row, claim.command
    with AttemptLog(claim.row, "look up") as attempt:
        try:
            settlement = command.settle(service(), send_context(row))
        except errors.ServiceError as error:
            attempt.record("failed", error)
            _look_up_failed(claim, error)
            return
        attempt.record(settlement.outcome, None)
    if isinstance(settlement, Confirmed):
        _complete(claim, settlement.answer, "look-up")
    elif not _is_final(claim):
        _schedule_lookup(claim)
    elif row.refusal and not row.doubted:
        # Its only sending was refused, and the lookup does not contradict.
        _close(claim, State.REFUSED)
    elif isinstance(settlement, Disproved):
        _close(claim, State.REFUSED, refusal=settlement.message)
    elif isinstance(settlement, Ambiguous):
        _mark_undecided(claim, settlement)
    elif row.refusal:
        _mark_undecided(claim)
    elif row.state == State.UNCERTAIN and _may_send_again(claim):
        _update(claim, state=State.WAITING, due_at=Now(), **_new_key(claim))
    else:
        _mark_undecided(claim)


def _is_final(claim: CommandClaim) -> bool:
    """Return whether a slow sending can no longer arrive, so that lookups are final."""
    return claim.row.settle_until is None or claim.at >= claim.row.settle_until


def _look_up_failed(claim: CommandClaim, error: errors.ServiceError) -> None:
    """Look up again later; after some failures let a person decide, while lookups go on."""
    if _is_final(claim) and (
        claim.row.looks >= len(LOOKUP_DELAYS) or isinstance(error, CONCLUSIVE_ERRORS)
    ):
        _mark_undecided(claim)
    else:
        _schedule_lookup(claim)


def _may_send_again(claim: CommandClaim) -> bool:
    unknown = claim.row.history.filter(phase="send", outcome__in=("uncertain", "lost", "fault"))
    if (
        unknown.count() >= MAX_UNCERTAIN_SENDINGS
        or claim.command.resend_policy is ResendPolicy.NEVER
    ):
        return False
    return claim.command.resend_policy is ResendPolicy.SAME_EFFECT or not claim.is_key_old()


def _new_key(claim: CommandClaim) -> dict[str, object]:
    """Return changes for a new idempotency key, at most once per command.

    It is needed if the service answers the old key with a stored failure, and shows no trace of
    the command.
    """
    row = claim.row
    stored = row.attempts > 1 and row.status is not None and row.status >= 500
    if claim.command.resend_policy is ResendPolicy.SAME_KEY and row.keys == 1 and stored:
        return {"idempotency_key": uuid.uuid4(), "keys": 2, "keyed_at": None}
    return {}


def _complete(claim: CommandClaim, answer: Any, confirmed_by: str) -> None:
    """Apply the answer and close the row, together."""
    with transaction.atomic(durable=True):
        row = CommandRecord.objects.select_for_update().get(pk=claim.row.pk)
        remote_id = claim.command.store(answer)
        was_ended = late_outcomes.may_have_happened(row)
        if was_ended and late_outcomes.is_of_later_command(row, remote_id):
            return
        # A late answer is stored, but does not close a row that is being sent again or was
        # withdrawn.
        is_late = row.lease_token != claim.token
        if is_late and not was_ended and (row.state == State.SENDING or not row.is_open):
            logger.warning("an answer came after the command was closed or sent again")
            return
        if was_ended:
            row.late_after = row.state
        row.state = State.DONE
        row.remote_id = remote_id
        row.done_url = claim.command.done_url(remote_id)
        row.confirmed_by = confirmed_by
        row.refusal, row.refusal_fields, row.found = "", [], []
        row.hindrance, row.status = "", None
        row.lease_token, row.lease_until = None, None
        row.finished_at = timezone.now()
        row.save()
        if was_ended:
            late_outcomes.suspend_repeats(row)
        next_command = claim.command.next_command(remote_id)
        if next_command is not None:
            enqueue_next(row, next_command)


def _mark_uncertain(claim: CommandClaim, **changes: object) -> None:
    _update(
        claim,
        state=State.UNCERTAIN,
        doubted=True,
        due_at=_seconds_from_now(LOOKUP_DELAYS[0]),
        **changes,
    )


def _schedule_lookup(claim: CommandClaim) -> None:
    looks, settle_until = claim.row.looks, claim.row.settle_until
    wait: float = LOOKUP_DELAYS[min(looks, len(LOOKUP_DELAYS) - 1)]
    if claim.row.state == State.UNDECIDED:
        wait = UNDECIDED_LOOKUP_SECONDS
    elif settle_until is not None and settle_until > claim.at:
        wait = min(wait, (settle_until - claim.at).total_seconds() + 0.1)
    _update(claim, looks=looks + 1, due_at=_seconds_from_now(wait))


def _mark_undecided(
    claim: CommandClaim, settlement: Ambiguous | None = None, **changes: object
) -> None:
    matches = settlement.matches if settlement else ()
    _update(
        claim,
        state=State.UNDECIDED,
        found=[{"id": match.id, "words": match.description} for match in matches],
        due_at=_seconds_from_now(UNDECIDED_LOOKUP_SECONDS),
        **changes,
    )


def _look_up_ended(claim: CommandClaim) -> None:
    """Look up an ended command, and close it as done if it happened after all."""
    try:
        settlement = claim.command.settle(service(), send_context(claim.row))
    except errors.ServiceError:
        settlement = None
    if isinstance(settlement, Confirmed):
        _complete(claim, settlement.answer, "look-up")
    _schedule_ended_lookup(claim)


def _schedule_ended_lookup(claim: CommandClaim) -> None:
    """Set the time of the next lookup of an ended command."""
    wait = late_outcomes.next_lookup_delay(claim.row, claim.at)
    CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token).update(
        lease_token=None, lease_until=None, looked_at=Now(), due_at=_seconds_from_now(wait)
    )


def _retry_later(claim: CommandClaim, error: errors.ServiceError) -> None:
    """Send later with the same key, because nothing was sent now.

    If an earlier sending may have happened, a person decides after some tries.
    """
    row = claim.row
    if row.doubted and row.looks >= 2 * MAX_UNCERTAIN_SENDINGS:
        _mark_undecided(claim)
        return
    wait = _backoff(max(row.attempts, row.looks))
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        wait = max(1.0, float(retry_after))
    if not isinstance(error, (errors.Limited, errors.Unreachable)):
        # A read before the sending was refused: nothing was sent.
        wait = max(wait, 10.0)
    _update(
        claim,
        state=State.WAITING,
        due_at=_seconds_from_now(wait),
        hindrance=obstacle_message(error),
        looks=row.looks + 1,
    )


def _retry_unchanged(claim: CommandClaim, hindrance: str) -> None:
    """Retry later without changing the state, because keys may be corrected.

    Older commands wait longer, up to five minutes.
    """
    wait = min(max(2.0, (claim.at - claim.row.requested_at).total_seconds() / 4), MAX_DELAY)
    _update(claim, hindrance=hindrance, due_at=_seconds_from_now(wait), looked_at=Now())


def _handle_fault(claim: CommandClaim, error: BaseException) -> None:
    """Handle an unexpected error or a time limit, at any line.

    Retries back off, so that they block nothing; the error is shown, and the retries end.
    """
    logger.error(
        "a command failed with an internal error: %s", type(error).__name__, exc_info=error
    )
    row = CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token).first()
    if row is None:
        return
    if not row.is_open:
        _schedule_ended_lookup(claim)
        return
    is_sending = row.state == State.SENDING
    phase = {State.SENDING: "send", State.WAITING: "prepare"}.get(State(row.state), "look up")
    row.history.create(phase=phase, began_at=claim.at, outcome="fault")
    faults = row.history.filter(outcome="fault").count()
    state = State.UNCERTAIN if is_sending else State(row.state)
    wait: float = LOOKUP_DELAYS[0] if is_sending else _backoff(faults)
    changes: dict[str, object] = {"doubted": row.doubted or is_sending, "hindrance": INTERNAL_ERROR}
    if faults >= MAX_UNCERTAIN_SENDINGS and state == State.WAITING and not row.doubted:
        _close(claim, State.REFUSED, refusal=NOT_SENT)
        return
    if faults >= MAX_UNCERTAIN_SENDINGS or state == State.UNDECIDED:
        state, wait = State.UNDECIDED, UNDECIDED_LOOKUP_SECONDS
    _update(claim, state=state, due_at=_seconds_from_now(wait), **changes)


def _backoff(tries: int) -> float:
    """Return seconds: 2, 4, 8 … up to five minutes, with some jitter."""
    return min(2.0 ** min(tries + 1, 10), MAX_DELAY) * random.uniform(0.8, 1.2)  # noqa: S311


def _seconds_from_now(seconds: float) -> CombinedExpression:
    return Now() + timedelta(seconds=seconds)


def _close(claim: CommandClaim, state: State, **changes: object) -> None:
    _update(claim, state=state, finished_at=Now(), **changes)


def _update(claim: CommandClaim, **changes: object) -> None:
    """Update the row and release the lease, unless another worker holds it now."""
    leased = CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token)
    if not leased.update(lease_token=None, lease_until=None, **changes):
        logger.warning("another worker took over a command")
