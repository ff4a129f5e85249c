"""Apply received events in batches. One transaction has the changes and the states of the events.

A worker claims rows that are due and unlocked, groups them by route, and gives each group to its
handler. The handler's changes and the events' new states are committed together. So a worker may be
killed at any line: no event is lost, and none is applied twice. Two workers never claim the same
row.

Two workers also never apply events of the same subject at the same time: one would wait for the
rows of the other until the end of its batch. If another worker has locked the subject of a claimed
event, the event is left for the next batch. If this applies to all claimed events, the worker waits
for the first subject.

A group that fails is rolled back to its savepoint and split in halves until the failing event is
alone. That event is tried again later. After its last attempt it is dead: staff see it with its
reason and can replay it. A transient error (a lost connection, a deadlock) is not caused by an
event. Then the whole batch is rolled back and left for the next run.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain

import psycopg
from celery.exceptions import SoftTimeLimitExceeded
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)

from backoffice.core import binary_rows, shutdown
from backoffice.core.encryption.cipher import DecryptionError
from backoffice.core.service_team import mirror_team
from backoffice.mirror.unknown_values import count_unknown_value
from backoffice.service.events import Misread, ReceivedEvent
from webhooks import event_envelope
from webhooks.models import Event, decrypted_body
from webhooks.routes import (
    ROUTES,
    TEAM_UNKNOWN,
    UNDECRYPTABLE,
    UNKNOWN_TYPE,
    Route,
    SetAside,
    find_route,
)

logger = logging.getLogger(__name__)

BATCH = 200
BYTES = 16 * 1024 * 1024
"""Most bytes of bodies in one batch; a single larger body is a batch of its own."""
MAX_BATCH_ATTEMPTS = 5
"""Attempts of a batch in a row, if the database rolls it back for a deadlock or conflict."""

DATA_ERROR_DELAYS = (timedelta(minutes=1),)
"""Delays before an event with invalid data is tried again. It will probably never become valid."""
OTHER_ERROR_DELAYS = tuple(
    timedelta(seconds=seconds) for seconds in (5, 30, 120, 600, 3_600, 4 * 3_600, 12 * 3_600)
)
"""Delays after any other failure, such as a bug that may be fixed meanwhile."""

_TRANSIENT_CLASSES = ("08", "40", "53", "57", "58")
"""Classes of SQLSTATE: connection, rollback by a conflict, resources, intervention, system."""
_TRANSIENT_STATES = ("25006", "55006", "55P03")
"""Read-only, in use, locked."""

SET_ASIDE_DELAY = timedelta(seconds=30)
"""Delay of an event that is set aside until the team, or an encryption key, is known."""

# The record of a subject may not exist yet, so an advisory lock on a hash of its id is used.
# Another subject with the same hash also waits.
_CLAIM_SQL = """
SELECT claimed.*,
 subject_id = '' OR pg_try_advisory_xact_lock(hashtextextended(subject_id, 0))
FROM (
 SELECT id, message_id, subject_id, received_at, attempts, coalesce(octet_length(body), 0),
  due_at = received_at
 FROM webhooks_event
 WHERE state IN ('pending', 'retry') AND due_at <= statement_timestamp()
 ORDER BY due_at, id LIMIT %s
 FOR UPDATE SKIP LOCKED
) AS claimed
"""
_WAIT_SQL = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_BODIES_SQL = "SELECT id, body FROM webhooks_event WHERE id = ANY(%s)"
_CLOSE_SQL = """
UPDATE webhooks_event AS event SET state = ended.state, outcome = ended.outcome,
 applied_at = clock_timestamp(), reason = '', path = ''
FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS ended (id, state, outcome)
WHERE event.id = ended.id
"""
_SET_ASIDE_SQL = """
UPDATE webhooks_event SET outcome = %s,
 due_at = clock_timestamp() + make_interval(secs => %s)
WHERE id = ANY(%s)
"""
_FAIL_SQL = """
UPDATE webhooks_event SET state = %s, outcome = 'failed', attempts = attempts + 1,
 reason = %s, path = %s, applied_at = CASE WHEN %s THEN clock_timestamp() END,
 due_at = clock_timestamp() + make_interval(secs => %s)
WHERE id = %s
"""


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that this worker has locked until the end of the transaction."""

    number: int
    message_id: str
    subject: str
    received_at: datetime
    attempts: int
    size: int
    is_untouched: bool
    """Whether it was neither retried nor replayed since its receipt."""
    has_lock: bool
    """Whether this worker has locked its subject until the end of the transaction."""


@dataclass
class BatchResult:
    """The results of the events of a batch, by event id."""

    ends: dict[tuple[Event.State, str], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    set_aside: dict[SetAside, list[int]] = field(default_factory=lambda: defaultdict(list))
    failed: dict[int, Exception] = field(default_factory=dict)
    invalid: dict[int, Misread] = field(default_factory=dict)
    unknown_types: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def drain(seconds: float | None = None, batch_bytes: int = BYTES) -> int:
    """Apply due events until none is left, or for about `seconds`. Return how many."""
    ends = None if seconds is None else time.monotonic() + seconds
    drained = 0
    while count := _apply_batch(batch_bytes):
        drained += count
        if shutdown.is_requested() or (ends is not None and time.monotonic() >= ends):
            break
    return drained


def _apply_batch(batch_bytes: int) -> int:
    """Apply one batch in a transaction, again if another transaction was in its way."""
    for attempt in range(1, MAX_BATCH_ATTEMPTS + 1):
        try:
            with transaction.atomic():
                claims = _claim_batch(batch_bytes)
                if claims:
                    result = BatchResult()
                    for route, events in _group_by_route(claims, result):
                        _apply_group(route, events, result)
                    _record_outcomes(claims, result)
            return len(claims)
        except DatabaseError as error:
            if attempt == MAX_BATCH_ATTEMPTS or not _is_rollback(error):
                raise
            logger.info("a batch of events is tried again: %s", type(error.__cause__).__name__)
    raise AssertionError("unreachable")


def _claim_batch(batch_bytes: int = BYTES) -> list[ClaimedEvent]:
    claims = _with_free_subject(
        [ClaimedEvent(*row) for row in binary_rows.fetch_all(_CLAIM_SQL, [BATCH])]
    )
    total = 0
    for position, claim in enumerate(claims):
        total += claim.size
        if total > batch_bytes and position:
            return claims[:position]  # The commit of this batch unlocks the rest.
    return claims


def _with_free_subject(claims: list[ClaimedEvent]) -> list[ClaimedEvent]:
    """Return the claims whose subject no other worker has locked.

    If all subjects are locked, wait for that of the first claim. A worker that waits has not locked
    any subject itself, so two workers cannot wait for each other.
    """
    owned = {claim.subject for claim in claims if claim.has_lock}
    if claims and not owned:
        owned = {claims[0].subject}
        binary_rows.fetch_all(_WAIT_SQL, [claims[0].subject])
    return [claim for claim in claims if claim.subject in owned]


def _group_by_route(
    claims: Sequence[ClaimedEvent], result: BatchResult
) -> Iterator[tuple[Route, list[ReceivedEvent]]]:
    """Yield routes with their events, in order of receipt.

    The routes always come in the same order, so that two workers lock rows in the same order.
    """
    team = mirror_team()
    bodies: dict[int, bytes | None] = dict(
        binary_rows.fetch_all(_BODIES_SQL, [[claim.number for claim in claims]])
    )
    by_type: dict[str, list[ReceivedEvent]] = defaultdict(list)
    for claim in sorted(claims, key=lambda claim: claim.number):
        try:
            stored = bodies.get(claim.number)
            if stored is None:
                raise Misread("", "the body is no longer kept")
            body = decrypted_body(claim.message_id, stored)
            # A replayed event may have been invalid on receipt, so its body is checked in full.
            envelope = (
                event_envelope.read_stored(body)
                if claim.is_untouched
                else event_envelope.read(body)
            )
        except DecryptionError as error:
            logger.error("the body of event %d cannot be decrypted: %s", claim.number, error)
            result.set_aside[UNDECRYPTABLE].append(claim.number)
            continue
        except Misread as error:
            result.invalid[claim.number] = error
            continue
        route = find_route(envelope, team)
        if isinstance(route, SetAside):
            result.set_aside[route].append(claim.number)
            if route is UNKNOWN_TYPE:
                result.unknown_types[envelope.event_type].append(claim.message_id)
        else:
            by_type[envelope.event_type].append(
                event_envelope.received_event(
                    claim.number, claim.message_id, claim.received_at, envelope
                )
            )
    groups: dict[Route, list[ReceivedEvent]] = defaultdict(list)
    for event_type, route in ROUTES.items():
        if event_type in by_type:
            groups[route] += by_type[event_type]
    for route, events in groups.items():
        yield route, sorted(events, key=lambda event: event.number)


def _apply_group(route: Route, events: list[ReceivedEvent], result: BatchResult) -> None:
    try:
        with transaction.atomic():
            outcomes = (route.handler(events) if route.handler else None) or {}
    except Exception as error:
        if _is_transient(error):
            raise
        if len(events) == 1:
            result.failed[events[0].number] = error
            return
        middle = len(events) // 2
        _apply_group(route, events[:middle], result)
        _apply_group(route, events[middle:], result)
    else:
        for event in events:
            outcome = outcomes.get(event.message_id, route.outcome)
            result.ends[Event.State.DONE, outcome].append(event.number)


def _record_outcomes(claims: Sequence[ClaimedEvent], result: BatchResult) -> None:
    with connection.cursor() as cursor:
        for set_aside, numbers in result.set_aside.items():
            if set_aside in (TEAM_UNKNOWN, UNDECRYPTABLE):
                cursor.execute(
                    _SET_ASIDE_SQL, [set_aside.outcome, SET_ASIDE_DELAY.total_seconds(), numbers]
                )
            else:
                result.ends[set_aside.state, set_aside.outcome] += numbers
        closed = [
            (number, state, outcome)
            for (state, outcome), numbers in result.ends.items()
            for number in numbers
        ]
        if closed:
            cursor.execute(_CLOSE_SQL, [list(column) for column in zip(*closed, strict=True)])
        attempts = {claim.number: claim.attempts for claim in claims}
        for number, error in chain(result.failed.items(), result.invalid.items()):
            reason, path = event_envelope.describe_error(error)
            # A body that is not a valid event never becomes one.
            wait = None if number in result.invalid else _retry_delay(error, attempts[number])
            state = Event.State.DEAD if wait is None else Event.State.RETRY
            cursor.execute(
                _FAIL_SQL,
                [state, reason, path, wait is None, wait.total_seconds() if wait else 0, number],
            )
            logger.warning(
                "event %d could not be applied (%s): %s",
                number,
                state.value,
                reason,
                exc_info=None if _is_data_error(error) else error,
            )
        for event_type, message_ids in sorted(result.unknown_types.items()):
            count_unknown_value(cursor, "event_type", event_type, len(message_ids), message_ids[0])


def _retry_delay(error: Exception, attempts: int) -> timedelta | None:
    """Return the delay before the next attempt, varied by 20%; None after the last attempt."""
    delays = DATA_ERROR_DELAYS if _is_data_error(error) else OTHER_ERROR_DELAYS
    if attempts >= len(delays):
        return None
    return delays[attempts] * random.uniform(0.8, 1.2)  # noqa: S311


def _is_data_error(error: Exception) -> bool:
    """Return whether the data of the event caused the failure, and not our code."""
    state = _sqlstate(error)
    if state is not None:
        return state[:2] in ("22", "23", "54")  # data, constraints, limits of a row
    # The driver itself rejects some values: text with a NUL character, dates it cannot write.
    database_errors = (DataError, IntegrityError, psycopg.DataError, psycopg.IntegrityError)
    value_errors = (ValueError, KeyError, RecursionError, OverflowError)
    return isinstance(error, (*value_errors, *database_errors))


def _is_transient(error: Exception) -> bool:
    """Return whether the event did not cause the failure, so that the same batch may succeed."""
    if isinstance(error, SoftTimeLimitExceeded):
        return True
    state = _sqlstate(error)
    if state is not None:
        return state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES
    return isinstance(error, (OperationalError, InterfaceError, psycopg.OperationalError))


def _is_rollback(error: Exception) -> bool:
    """Return whether a deadlock or a conflict with another transaction caused the failure."""
    return (_sqlstate(error) or "")[:2] == "40"


def _sqlstate(error: BaseException) -> str | None:
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return cause.sqlstate if isinstance(cause, psycopg.Error) else None
