"""What workers do: claim, check, send with no transaction open, settle, close.

Closing names the lease it holds: a worker that was stopped past its lease finds the row in other
hands, and its late answer is stored as a fact but closes nothing that was decided meanwhile.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from backoffice.models import CommandAttempt, CommandRecord
from backoffice.outbox.command import (
    Again,
    Command,
    Happened,
    NotNow,
    Refuted,
    Several,
    sending_of,
)
from backoffice.remote import service
from backoffice.service import errors

logger = logging.getLogger(__name__)

State = CommandRecord.State

ROUNDS: Final = 5
"""Sendings by machine before a person is asked."""
KEY_LIVES: Final = timedelta(hours=20)
"""The service keeps an idempotency key for 24 hours at least."""
LOOKS: Final = (2, 5, 15, 45, 120)
"""Seconds until the next look-up of something uncertain."""
LATER_LOOK: Final = timedelta(minutes=10)
"""Between look-ups while a person has not decided."""
SLOWEST: Final = timedelta(minutes=5)
WORDS: Final = 500
"""Letters kept of what the service says."""
LONGEST: Final = 80
"""Seconds a task may run: it begins nothing after its slice, and one sending is done in these."""
OPEN: Final = (State.WAITING, State.SENDING, State.UNCERTAIN, State.UNDECIDED)

_CLAIM = """
UPDATE backoffice_commandrecord
SET lease_token = %s, lease_until = now() + make_interval(secs => %s)
WHERE id = (
 SELECT id FROM backoffice_commandrecord
 WHERE state IN ('waiting', 'uncertain', 'undecided') AND due_at <= now() AND kind = ANY(%s)
  AND (lease_until IS NULL OR lease_until < now())
 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id
"""
_BEGIN = """
UPDATE backoffice_commandrecord SET state = 'sending', attempts = attempts + 1, sent_at = now(),
 first_sent_at = coalesce(first_sent_at, now()), looks = 0,
 lease_until = now() + make_interval(secs => %s),
 settle_until = now() + make_interval(secs => %s)
WHERE id = %s AND lease_token = %s AND state = 'waiting' AND lease_until > now()
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A row to work on, and the token that lets its holder close it."""

    row: CommandRecord
    token: UUID
    command: Command


def deliver(kinds: Sequence[type[Command]], seconds: float = 20) -> int:
    """Send and settle what is due, for about so long; returns how many rows were worked on."""
    lapse()
    ends = time.monotonic() + seconds
    done = 0
    while time.monotonic() < ends and (claim := _claimed(kinds)) is not None:
        if claim.row.state == State.WAITING:
            _send(claim)
        else:
            _settle(claim)
        done += 1
    return done


def lapse() -> int:
    """Sendings whose worker is gone: whether the service has them, nobody here knows."""
    return CommandRecord.objects.filter(state=State.SENDING, lease_until__lt=timezone.now()).update(
        state=State.UNCERTAIN, doubted=True, lease_token=None, due_at=timezone.now()
    )


def _claimed(kinds: Sequence[type[Command]]) -> Claim | None:
    by_kind = {kind.kind: kind for kind in kinds}
    token = uuid.uuid4()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(_CLAIM, [token, settings.OUTBOX_LEASE_SECONDS, list(by_kind)])
        found = cursor.fetchone()
    if found is None:
        return None
    row = CommandRecord.objects.get(pk=found[0])
    return Claim(row, token, by_kind[row.kind].read(row.payload))


def _send(claim: Claim) -> None:
    command, row = claim.command, claim.row
    try:
        command.refresh(service())
        command.check()
    except NotNow as error:
        _close(claim, State.REFUSED, refusal=error.words)
        return
    except errors.ServiceError as error:
        _put_back(claim, error)
        return
    if not _begin(claim):
        logger.warning("a command was taken over before it was sent")
        return
    row.refresh_from_db()
    with _Attempt(claim, "send") as attempt:
        try:
            answer = command.send(service(), sending_of(row))
        except errors.Uncertain as error:
            attempt.ended("uncertain", error)
            _doubt(claim)
        except errors.Limited as error:
            attempt.ended("limited", error)
            _put_back(claim, error)
        except errors.Unreachable as error:
            attempt.ended("unreachable", error)
            # Only the class itself says that nothing left.
            _put_back(claim, error) if type(error) is errors.Unreachable else _doubt(claim)
        except errors.ServiceError as error:
            attempt.ended("refused", error)
            _refused(claim, error)
        except BaseException as error:
            # A time limit or a fault of our own, at a moment when it may have been sent.
            attempt.ended("uncertain", None)
            logger.exception("a command was left uncertain: %s", type(error).__name__)
            _doubt(claim)
            raise
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
        return bool(cursor.rowcount)


def _refused(claim: Claim, error: errors.ServiceError) -> None:
    """The service says no. Where it may have said yes before, it is asked what is true: "slot no
    longer available" may be our own booking, "already cancelled" our own cancelling."""
    words, fields = _words(error, claim.command)
    if not claim.row.doubted and claim.command.again is not Again.SAME_EFFECT:
        _close(claim, State.REFUSED, refusal=words, refusal_fields=fields, status=error.status)
        return
    try:
        found = claim.command.settle(service(), sending_of(claim.row))
    except errors.ServiceError:
        _doubt(claim, refusal=words, refusal_fields=fields, status=error.status)
        return
    if isinstance(found, Happened):
        _done(claim, found.answer, "look-up")
    else:
        _close(claim, State.REFUSED, refusal=words, refusal_fields=fields, status=error.status)


def _settle(claim: Claim) -> None:
    """Ask the service what is true."""
    row, command = claim.row, claim.command
    with _Attempt(claim, "look up") as attempt:
        try:
            found = command.settle(service(), sending_of(row))
        except errors.ServiceError as error:
            attempt.ended("failed", error)
            _look_later(claim)
            return
        attempt.ended(type(found).__name__.lower(), None)
    if isinstance(found, Happened):
        _done(claim, found.answer, "look-up")
    elif isinstance(found, Refuted):
        _close(claim, State.REFUSED, refusal=found.words)
    elif row.settle_until is not None and timezone.now() < row.settle_until:
        _look_later(claim)  # A slow sending may still arrive.
    elif isinstance(found, Several):
        _ask_a_person(claim, [{"id": one.id, "words": one.words} for one in found.found])
    elif row.refusal:
        _close(claim, State.REFUSED)
    elif row.state == State.UNCERTAIN and _may_send_again(claim):
        _update(claim, state=State.WAITING, due_at=timezone.now())
    else:
        _ask_a_person(claim, [])


def _may_send_again(claim: Claim) -> bool:
    row = claim.row
    if row.attempts >= ROUNDS or claim.command.again is Again.NEVER:
        return False
    first = row.first_sent_at or timezone.now()
    return claim.command.again is Again.SAME_EFFECT or timezone.now() - first < KEY_LIVES


def _done(claim: Claim, answer: Any, confirmed_by: str) -> None:
    """Apply the answer and close the row, together."""
    with transaction.atomic(durable=True):
        row = CommandRecord.objects.select_for_update().get(pk=claim.row.pk)
        remote_id = claim.command.store(answer)
        if row.lease_token != claim.token and row.state not in (State.UNCERTAIN, State.UNDECIDED):
            logger.warning("an answer came after the command was closed or sent anew")
            return
        row.state = State.DONE
        row.remote_id = remote_id
        row.done_url = claim.command.done(remote_id)
        row.confirmed_by = confirmed_by
        row.refusal, row.refusal_fields, row.found = "", [], []
        row.lease_token, row.lease_until = None, None
        row.finished_at = timezone.now()
        row.save()


def _doubt(claim: Claim, **said: Any) -> None:
    look = timezone.now() + timedelta(seconds=LOOKS[0])
    _update(claim, state=State.UNCERTAIN, doubted=True, due_at=look, **said)


def _look_later(claim: Claim) -> None:
    looks = claim.row.looks
    wait = timedelta(seconds=LOOKS[min(looks, len(LOOKS) - 1)])
    if claim.row.state == State.UNDECIDED:
        wait = LATER_LOOK
    ends = claim.row.settle_until
    due = timezone.now() + wait
    if ends is not None and timezone.now() < ends < due:
        due = ends
    _update(claim, looks=looks + 1, due_at=due)


def _ask_a_person(claim: Claim, found: list[dict[str, str]]) -> None:
    _update(claim, state=State.UNDECIDED, found=found, due_at=timezone.now() + LATER_LOOK)


def _put_back(claim: Claim, error: errors.ServiceError) -> None:
    """Certainly nothing happened: due again later, with the same key."""
    wait = min(timedelta(seconds=2 ** min(claim.row.attempts + 1, 10)), SLOWEST)
    wait *= random.uniform(0.8, 1.2)  # noqa: S311
    told = getattr(error, "retry_after", None)
    if told is not None:
        wait = timedelta(seconds=max(1.0, float(told)))
    if not isinstance(error, (errors.Limited, errors.Unreachable)):
        # A look before sending was refused: not in our hands, but nothing was sent either.
        wait = max(wait, timedelta(seconds=10))
    _update(claim, state=State.WAITING, due_at=timezone.now() + wait, hindrance=_short(error))


def _close(claim: Claim, state: State, **said: Any) -> None:
    _update(claim, state=state, finished_at=timezone.now(), **said)


def _update(claim: Claim, **changes: Any) -> None:
    """As the holder of the lease; another holder's row is left as it is."""
    held = CommandRecord.objects.filter(pk=claim.row.pk, lease_token=claim.token)
    if not held.update(lease_token=None, lease_until=None, **changes):
        logger.warning("a command was taken over meanwhile")


def _words(error: errors.ServiceError, command: Command) -> tuple[str, list[dict[str, str]]]:
    """The service's words for staff, and those about single fields at our names of them."""
    fields = []
    general = [error.message[:WORDS]] if error.message else []
    for told in getattr(error, "fields", ()):
        ours = _our_field(told.path, command.fields)
        fields.append({"field": ours, "path": told.path, "words": told.msg[:WORDS]})
        if not ours:
            general.append(f"{told.path}: {told.msg}"[:WORDS] if told.path else told.msg[:WORDS])
    if not general:
        if fields:
            general = ["The service did not accept what stands in some fields."]
        elif isinstance(error, errors.Denied):
            general = ["The service does not allow this team to do that."]
        else:
            general = [f"The service refused it without a reason (answer {error.status})."]
    return " ".join(general)[: 4 * WORDS], fields


def _our_field(path: str, names: dict[str, str]) -> str:
    """By the longest known beginning of the path."""
    while path:
        if path in names:
            return names[path]
        path = path.rpartition(".")[0]
    return ""


def _short(error: errors.ServiceError) -> str:
    if isinstance(error, errors.Limited):
        return "The service asks us to wait."
    return "The service cannot be reached."


class _Attempt:
    """One line of the command's history: when, what for, how it ended. No content."""

    def __init__(self, claim: Claim, phase: str) -> None:
        self._claim = claim
        self._phase = phase
        self._outcome = "ended"
        self._error: errors.ServiceError | None = None
        self._began: datetime = timezone.now()

    def ended(self, outcome: str, error: errors.ServiceError | None) -> None:
        self._outcome, self._error = outcome, error

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        CommandAttempt.objects.create(
            command=self._claim.row,
            phase=self._phase,
            began_at=self._began,
            outcome=self._outcome,
            status=self._error.status if self._error else None,
            trace_id=(self._error.trace_id if self._error else "")[:64],
        )
