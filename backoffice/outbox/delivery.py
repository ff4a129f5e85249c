"""What workers do: claim, check, send with no transaction open, settle, close.

Closing names the lease it holds: a worker that was stopped past its lease finds the row in other
hands. Its late answer is stored as a fact, and closes what is still open and not being sent anew,
and what a person gave up meanwhile (`ended.py`). All times are the database's: clocks may differ.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from backoffice.core import heartbeats, request_ids, service_team, shutdown
from backoffice.core.encryption import encrypted_fields
from backoffice.core.service_client import service
from backoffice.models import CommandRecord
from backoffice.outbox import late_outcomes, maintenance
from backoffice.outbox.attempts import Attempt
from backoffice.outbox.command import (
    KEY_LIVES,
    Ambiguous,
    Command,
    Confirmed,
    Disproved,
    PreconditionFailed,
    ResendPolicy,
    send_context,
)
from backoffice.outbox.enqueueing import enqueue_next
from backoffice.outbox.refusal_messages import obstacle_words, refusal_words
from backoffice.service import errors

logger = logging.getLogger(__name__)

State = CommandRecord.State

ROUNDS: Final = 5
"""Sendings of unknown outcome before a person is asked."""
LOOKS: Final = (2, 5, 15, 45, 120)
"""Seconds until the next look-up of something uncertain."""
LATER_LOOK: Final = 600
"""Seconds between look-ups while a person has not decided."""
SLOWEST: Final = 300
MAX_TASK_SECONDS: Final = 80
"""Seconds a task may run: it begins nothing after its slice, and one sending is done in these."""
TELLING: Final = (errors.Missing, errors.Denied)
"""Answers to a look-up that will hardly change by themselves."""
GONE: Final = "The service no longer has what this is about."
OUR_FAULT: Final = "A fault of the back office holds this up; it was written to the log."
NOT_SENT: Final = "A fault of the back office kept this from being sent: nothing happened."

CANNOT_DECRYPT: Final = (
    "The contents of this request cannot be opened with the keys that are set (FIELD_KEYS). "
    "It is tried again until they can; nothing is lost."
)

_CLAIM: Final = """
UPDATE backoffice_commandrecord
SET lease_token = %s, lease_until = now() + make_interval(secs => %s)
WHERE id = (
 SELECT id FROM backoffice_commandrecord
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
    f"{late_outcomes.FOLLOWED_ROWS}"
    f" AND finished_at > now() - interval '{late_outcomes.FOLLOWED.days} days'"
)
_BEGIN = """
UPDATE backoffice_commandrecord SET state = 'sending', attempts = attempts + 1, sent_at = now(),
 first_sent_at = coalesce(first_sent_at, now()), keyed_at = coalesce(keyed_at, now()), looks = 0,
 status = NULL, hindrance = '',
 lease_until = now() + make_interval(secs => %s),
 settle_until = now() + make_interval(secs => %s)
WHERE id = %s AND lease_token = %s AND state = 'waiting' AND lease_until > now()
"""


class Claim:
    """A row to work on, the moment it was taken, and the token that lets its holder close it."""

    def __init__(self, row: CommandRecord, token: UUID, at: datetime, kind: type[Command]) -> None:
        self.row, self.token, self.at = row, token, at
        self._kind = kind

    @cached_property
    def command(self) -> Command:
        """May raise anything: an older release may have written it."""
        return self._kind.read(self.row.payload)

    def key_is_old(self) -> bool:
        first = self.row.keyed_at
        return first is not None and self.at - first >= KEY_LIVES


def deliver(kinds: Sequence[type[Command]], seconds: float = 20) -> int:
    """Send and settle what is due, for about so long; returns how many rows were worked on."""
    maintenance.mark_lost_sendings()
    maintenance.explain_hold()
    late_outcomes.wake_by_changes()
    ends = time.monotonic() + seconds
    done = 0
    while time.monotonic() < ends and not shutdown.is_requested():
        claim = _claimed(kinds)
        if claim is None:
            break
        with request_ids.use_request_id(claim.row.request_id):
            _deliver(claim)
        done += 1
    return done


def _deliver(claim: Claim) -> None:
    try:
        _work(claim)
    except BaseException as error:
        _failed(claim, error)
        if isinstance(error, SoftTimeLimitExceeded) or not isinstance(error, Exception):
            raise


def _claimed(kinds: Sequence[type[Command]]) -> Claim | None:
    by_kind = {kind.kind: kind for kind in kinds}
    token = uuid.uuid4()
    parameters: list[Any] = [token, settings.OUTBOX_LEASE_SECONDS, list(by_kind)]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_CLAIM_OPEN, parameters)
        found = cursor.fetchone()
        if found is None:
            cursor.execute(_CLAIM_ENDED, parameters)
            found = cursor.fetchone()
    if found is None:
        return None
    row = CommandRecord.objects.get(pk=found[0])
    return Claim(row, token, found[1], by_kind[row.kind])


def _work(claim: Claim) -> None:
    row = claim.row
    if encrypted_fields.is_unreadable(row, "payload"):
        logger.error("the contents of command %s cannot be opened with FIELD_KEYS", row.pk)
        _put_back_undecided(claim, CANNOT_DECRYPT)
        return
    if not _is_our_team(claim):
        return
    if not row.is_open:
        _look_after_the_end(claim)
        return
    keyed = claim.command.resend_policy is ResendPolicy.SAME_KEY
    if row.state == State.WAITING and not (keyed and row.doubted and claim.key_is_old()):
        _send(claim)
    else:
        _settle(claim)


def _is_our_team(claim: Claim) -> bool:
    """Another team's service knows none of our records: its answers prove nothing, and nothing may
    be sent to it. False where the claim was put back for that, or as the service is silent."""
    try:
        service_team.verified_service()
    except service_team.AnotherTeam as error:
        logger.error("a command was not worked on: %s", error)
        _put_back_undecided(claim, service_team.ANOTHER_TEAM)
    except errors.ServiceError as error:
        if claim.row.state == State.WAITING:
            _put_back(claim, error)
        elif claim.row.is_open:
            _look_up_failed(claim, error)
        else:
            _follow_ended(claim)
    else:
        return True
    return False


def _send(claim: Claim) -> None:
    command, row = claim.command, claim.row
    try:
        command.refresh(service())
        command.check()
        if row.first_sent_at is None:
            command.record_state_before()
    except PreconditionFailed as error:
        # "Cancelled already" may be just what was asked for, whoever did it.
        about = [{"field": error.field, "path": "", "words": error.message}] if error.field else []
        look = row.doubted or command.resend_policy is ResendPolicy.SAME_EFFECT
        _refuse(claim, error.message, look=look, refusal_fields=about)
        return
    except errors.Missing:
        _refuse(claim, GONE, look=row.doubted)
        return
    except errors.ServiceError as error:
        _put_back(claim, error)
        return
    if shutdown.is_requested():
        _update(claim, state=State.WAITING, due_at=Now())
        return
    # Measured before the row says "sending": a worker stopped from here on sends nothing when it
    # goes on after its lease.
    ends = time.monotonic() + settings.OUTBOX_SEND_SECONDS
    if not _begin(claim):
        logger.warning("a command was taken over before it was sent")
        return
    row.refresh_from_db()
    with Attempt(claim.row, "send") as attempt:
        try:
            answer = command.send(service().until(ends), send_context(row))
        except errors.ServiceError as error:
            attempt.ended(_outcome(error), error)
            _unanswered(claim, error)
        else:
            attempt.ended("answered", None)
            _done(claim, answer, "answer")


def _begin(claim: Claim) -> bool:
    """Say that it is being sent before the first byte leaves; False when the lease is lost."""
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
    """How a sending ended that was not answered with what it asked for."""
    if isinstance(error, errors.Uncertain) or error.route.startswith("GET "):
        return "uncertain"  # A read around the write failed: that says nothing about the write.
    if isinstance(error, errors.Limited):
        return "limited"
    if isinstance(error, errors.Unreachable):
        # Only the class itself says that nothing left.
        return "unreachable" if type(error) is errors.Unreachable else "uncertain"
    return "refused"


def _unanswered(claim: Claim, error: errors.ServiceError) -> None:
    outcome = _outcome(error)
    if outcome == "uncertain":
        _doubt(claim, status=error.status)
    elif outcome == "refused":
        words, fields = refusal_words(error, claim.command)
        look = claim.row.doubted or claim.command.resend_policy is ResendPolicy.SAME_EFFECT
        _refuse(claim, words, look=look, refusal_fields=fields, status=error.status)
    else:
        _put_back(claim, error)


def _refuse(claim: Claim, words: str, *, look: bool, **refusal: Any) -> None:
    """It was refused, there or here. Where it may have happened before, the service is asked what
    is true (`look`): "slot no longer available" may be our own booking, "already cancelled" our own
    cancelling. After a sending of unknown outcome a refusal proves nothing: what the look-ups do
    not tell, a person decides."""
    row, found = claim.row, None
    if look:
        try:
            found = claim.command.settle(service(), send_context(row))
        except errors.ServiceError:
            if row.first_sent_at is not None:
                _look_up_refused(claim, words, **refusal)
                return
    if isinstance(found, Confirmed):
        _done(claim, found.answer, "look-up")
    elif not row.doubted:
        _close(claim, State.REFUSED, refusal=words, **refusal)
    elif isinstance(found, Disproved):
        _close(claim, State.REFUSED, refusal=found.message)
    elif isinstance(found, Ambiguous):
        _ask_a_person(claim, found, refusal=words, **refusal)
    else:
        _look_up_refused(claim, words, **refusal)


def _look_up_refused(claim: Claim, words: str, **refusal: Any) -> None:
    _update(claim, state=State.UNCERTAIN, due_at=_in(LOOKS[0]), refusal=words, **refusal)


def _settle(claim: Claim) -> None:
    """Ask the service what is true."""
    row, command = claim.row, claim.command
    with Attempt(claim.row, "look up") as attempt:
        try:
            found = command.settle(service(), send_context(row))
        except errors.ServiceError as error:
            attempt.ended("failed", error)
            _look_up_failed(claim, error)
            return
        attempt.ended(found.outcome, None)
    if isinstance(found, Confirmed):
        _done(claim, found.answer, "look-up")
    elif not _is_final(claim):
        _look_later(claim)
    elif row.refusal and not row.doubted:
        _close(claim, State.REFUSED)  # Its only sending was refused, and it is not so.
    elif isinstance(found, Disproved):
        _close(claim, State.REFUSED, refusal=found.message)
    elif isinstance(found, Ambiguous):
        _ask_a_person(claim, found)
    elif row.refusal:
        _ask_a_person(claim)
    elif row.state == State.UNCERTAIN and _may_send_again(claim):
        _update(claim, state=State.WAITING, due_at=Now(), **_key(claim))
    else:
        _ask_a_person(claim)


def _is_final(claim: Claim) -> bool:
    """Whether what the service shows is final: a slow sending has arrived, or never will."""
    return claim.row.settle_until is None or claim.at >= claim.row.settle_until


def _look_up_failed(claim: Claim, error: errors.ServiceError) -> None:
    """A person is asked after some tries: it is looked up there, too, but nobody waits in vain."""
    if _is_final(claim) and (claim.row.looks >= len(LOOKS) or isinstance(error, TELLING)):
        _ask_a_person(claim)
    else:
        _look_later(claim)


def _may_send_again(claim: Claim) -> bool:
    left = claim.row.history.filter(phase="send", outcome__in=("uncertain", "lost", "fault"))
    if left.count() >= ROUNDS or claim.command.resend_policy is ResendPolicy.NEVER:
        return False
    return claim.command.resend_policy is ResendPolicy.SAME_EFFECT or not claim.key_is_old()


def _key(claim: Claim) -> dict[str, Any]:
    """A new key, once, where the service answers the old one with a failure it has stored, while
    no trace is found of what was asked."""
    row = claim.row
    stored = row.attempts > 1 and row.status is not None and row.status >= 500
    if claim.command.resend_policy is ResendPolicy.SAME_KEY and row.keys == 1 and stored:
        return {"idempotency_key": uuid.uuid4(), "keys": 2, "keyed_at": None}
    return {}


def _done(claim: Claim, answer: Any, confirmed_by: str) -> None:
    """Apply the answer and close the row, together."""
    with transaction.atomic(durable=True):
        row = CommandRecord.objects.select_for_update().get(pk=claim.row.pk)
        remote_id = claim.command.store(answer)
        was_ended = late_outcomes.is_followed(row)
        if was_ended and late_outcomes.belongs_to_another(row, remote_id):
            return
        # A late one is as true as any, but leaves alone what is being sent anew or was taken back.
        late = row.lease_token != claim.token
        if late and not was_ended and (row.state == State.SENDING or not row.is_open):
            logger.warning("an answer came after the command was closed or sent anew")
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
            late_outcomes.hold_repeats(row)
        step = claim.command.next_command(remote_id)
        if step is not None:
            enqueue_next(row, step)


def _doubt(claim: Claim, **said: Any) -> None:
    _update(claim, state=State.UNCERTAIN, doubted=True, due_at=_in(LOOKS[0]), **said)


def _look_later(claim: Claim) -> None:
    looks, ends = claim.row.looks, claim.row.settle_until
    wait: float = LOOKS[min(looks, len(LOOKS) - 1)]
    if claim.row.state == State.UNDECIDED:
        wait = LATER_LOOK
    elif ends is not None and ends > claim.at:
        wait = min(wait, (ends - claim.at).total_seconds() + 0.1)
    _update(claim, looks=looks + 1, due_at=_in(wait))


def _ask_a_person(claim: Claim, several: Ambiguous | None = None, **changes: Any) -> None:
    found = [{"id": one.id, "words": one.description} for one in several.matches] if several else []
    _update(claim, state=State.UNDECIDED, found=found, due_at=_in(LATER_LOOK), **changes)


def _look_after_the_end(claim: Claim) -> None:
    """See whether what has ended happened after all."""
    try:
        found = claim.command.settle(service(), send_context(claim.row))
    except errors.ServiceError:
        found = None
    if isinstance(found, Confirmed):
        _done(claim, found.answer, "look-up")
    _follow_ended(claim)


def _follow_ended(claim: Claim) -> None:
    """The next look-up of what is ended still."""
    wait = late_outcomes.next_look(claim.row, claim.at)
    CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token).update(
        lease_token=None, lease_until=None, looked_at=Now(), due_at=_in(wait)
    )


def _put_back(claim: Claim, error: errors.ServiceError) -> None:
    """Certainly nothing happened: due again later, with the same key. What may have happened
    before goes to a person when this lasts."""
    row = claim.row
    if row.doubted and row.looks >= 2 * ROUNDS:
        _ask_a_person(claim)
        return
    wait = _backoff(max(row.attempts, row.looks))
    told = getattr(error, "retry_after", None)
    if told is not None:
        wait = max(1.0, float(told))
    if not isinstance(error, (errors.Limited, errors.Unreachable)):
        # A look before sending was refused: not in our hands, but nothing was sent either.
        wait = max(wait, 10.0)
    words = obstacle_words(error)
    _update(claim, state=State.WAITING, due_at=_in(wait), hindrance=words, looks=row.looks + 1)


def _put_back_undecided(claim: Claim, hindrance: str) -> None:
    """Keys may be put right: nothing is decided. Old ones wait longer, five minutes at most."""
    wait = min(max(2.0, (claim.at - claim.row.requested_at).total_seconds() / 4), SLOWEST)
    _update(claim, hindrance=hindrance, due_at=_in(wait), looked_at=Now())


def _failed(claim: Claim, error: BaseException) -> None:
    """A fault of our own, or a time limit, at any line. It backs off, so that it blocks nothing,
    is seen, and comes to an end."""
    logger.error("a command failed here: %s", type(error).__name__, exc_info=error)
    row = CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token).first()
    if row is None:
        return
    if not row.is_open:
        _follow_ended(claim)
        return
    sending = row.state == State.SENDING
    phase = {State.SENDING: "send", State.WAITING: "prepare"}.get(State(row.state), "look up")
    row.history.create(phase=phase, began_at=claim.at, outcome="fault")
    faults = row.history.filter(outcome="fault").count()
    state = State.UNCERTAIN if sending else State(row.state)
    wait: float = LOOKS[0] if sending else _backoff(faults)
    changes: dict[str, Any] = {"doubted": row.doubted or sending, "hindrance": OUR_FAULT}
    if faults >= ROUNDS and state == State.WAITING and not row.doubted:
        _close(claim, State.REFUSED, refusal=NOT_SENT)
        return
    if faults >= ROUNDS or state == State.UNDECIDED:
        state, wait = State.UNDECIDED, LATER_LOOK
    _update(claim, state=state, due_at=_in(wait), **changes)


def _backoff(tries: int) -> float:
    """Seconds: 2, 4, 8 … five minutes, a little at random."""
    return min(2.0 ** min(tries + 1, 10), SLOWEST) * random.uniform(0.8, 1.2)  # noqa: S311


def _in(seconds: float) -> Any:
    return Now() + timedelta(seconds=seconds)


def _close(claim: Claim, state: State, **said: Any) -> None:
    _update(claim, state=state, finished_at=Now(), **said)


def _update(claim: Claim, **changes: Any) -> None:
    """As the holder of the lease; another holder's row is left as it is."""
    held = CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token)
    if not held.update(lease_token=None, lease_until=None, **changes):
        logger.warning("a command was taken over meanwhile")
