"""Deliver due messages: lease rows, give them to sending threads, record the outcomes.

A lease moves `due_at` ahead, so a message of a process that died is leased again, with the same id.
One thread uses the database, and only while there is an endpoint.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.db import connection, transaction

from sandbox import clock, event_queue
from sandbox.deliveries import endpoints, faults
from sandbox.deliveries.faults import Faults
from sandbox.deliveries.sender import NO_ANSWER, TIMEOUT_SECONDS, Job, Outcome, Sender
from sandbox.models import Message, WebhookEndpoint

DELAYS = (5, 300, 1_800, 7_200, 18_000, 36_000, 36_000)  # seconds after each failure
THREADS = 24
IN_FLIGHT = 240
IDLE_SECONDS = 0.2
UNUSED_SECONDS = 1.0
LEASE = timedelta(seconds=3 * TIMEOUT_SECONDS + 45)
HAND_BACK_SECONDS = 30
END_SECONDS = 5
RETENTION = timedelta(hours=6)
LOOK_BACK_SECONDS = 60
DELETED_AT_ONCE = 5_000
EXHAUSTED = "message.attempt.exhausted"
log = logging.getLogger(__name__)

LEASE_SQL = """
UPDATE sandbox_message m SET due_at = %(leased)s, claimed = true
FROM (
    SELECT number FROM sandbox_message
    WHERE state = 'pending' AND endpoint_id = %(endpoint)s AND due_at <= %(now)s
    ORDER BY due_at, number LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) due
WHERE m.number = due.number
RETURNING m.number, m.message_id, m.event_type, m.body, m.attempts, m.held, m.altered,
    m.forged, m.stale, m.ended_at IS NOT NULL
"""
RECORD_SQL = """
UPDATE sandbox_message m SET state = o.state, due_at = o.due_at, claimed = false,
    attempts = m.attempts + o.attempts, copies = m.copies + o.copies,
    forged = m.forged + o.forged, stale = m.stale + o.stale,
    swallowed = m.swallowed + o.swallowed, last_status = coalesce(o.status, m.last_status),
    ended_at = coalesce(m.ended_at, o.ended_at)
FROM unnest(%s::bigint[], %s::text[], %s::timestamptz[], %s::int[], %s::int[], %s::int[],
    %s::int[], %s::int[], %s::int[], %s::timestamptz[])
    AS o(number, state, due_at, attempts, copies, forged, stale, swallowed, status, ended_at)
WHERE m.number = o.number
"""

DELETE_OLD_SQL = """
DELETE FROM sandbox_message WHERE number IN (
    SELECT number FROM (SELECT * FROM sandbox_message ORDER BY number LIMIT %s) oldest
    WHERE state <> 'pending' AND ended_at < %s
)
"""


class Deliverer(threading.Thread):
    """Works until `stop` is set, then waits a little for messages that are being sent."""

    def __init__(self) -> None:
        super().__init__(name="deliveries", daemon=True)
        self.stop = threading.Event()
        self._sender = Sender()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._senders: list[threading.Thread] = []
        self._in_flight = 0
        self._next_claim: dict[str, float] = {}
        self._next_look_back = 0.0

    def run(self) -> None:
        taken_back = False
        while not self.stop.is_set():
            try:
                if not taken_back:
                    Message.objects.filter(claimed=True).update(
                        claimed=False, due_at=clock.real_now()
                    )
                    taken_back = True
                self._forget_old()
                wait = self._turn()
            except Exception:
                # Leased messages are due again when their lease ends.
                log.exception("a run of deliveries failed")
                connection.close()
                wait = UNUSED_SECONDS
            if wait:
                self.stop.wait(wait)
        self._end()

    def _end(self) -> None:
        """Wait a little for messages being sent; the others are due again at the next start."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
                self._in_flight -= 1
        deadline = time.monotonic() + END_SECONDS
        while self._in_flight and time.monotonic() < deadline:
            self._record(self._finished(0.2), faults.current_faults())

    def _forget_old(self) -> None:
        """Delete the oldest messages that ended long ago, some thousands a minute."""
        if time.monotonic() < self._next_look_back:
            return
        self._next_look_back = time.monotonic() + LOOK_BACK_SECONDS
        with connection.cursor() as cursor:
            cursor.execute(DELETE_OLD_SQL, [DELETED_AT_ONCE, clock.real_now() - RETENTION])

    def _turn(self) -> float:
        """Lease and record messages once; return the seconds until there may be more to do."""
        working = list(WebhookEndpoint.objects.filter(disabled=False))
        if not working and not self._in_flight:
            return UNUSED_SECONDS
        wanted = faults.current_faults()
        self._record(self._finished(0.005), wanted)
        if wanted.silence:
            return IDLE_SECONDS
        claimed = 0
        for endpoint in working:
            free = min(IN_FLIGHT - self._in_flight, self._allowance(endpoint))
            # Few big claims rather than many small ones.
            if free >= IN_FLIGHT // 3 or (free > 0 and endpoint.rate_limit):
                for job in self._claim(endpoint, free, wanted):
                    self._in_flight += 1
                    claimed += 1
                    self._jobs.put(job)
        if claimed and not self._senders:
            self._start_senders()
        return 0 if claimed or self._in_flight else IDLE_SECONDS

    def _allowance(self, endpoint: WebhookEndpoint) -> int:
        """Return how many messages may be sent now. An endpoint with a rate limit gets the
        messages of one second once a second."""
        if not endpoint.rate_limit:
            return IN_FLIGHT
        now = time.monotonic()
        if now < self._next_claim.get(endpoint.id, 0):
            return 0
        self._next_claim[endpoint.id] = now + 1
        return endpoint.rate_limit

    def _start_senders(self) -> None:
        self._senders = [
            threading.Thread(target=self._send_all, name=f"send-{n}", daemon=True)
            for n in range(THREADS)
        ]
        for thread in self._senders:
            thread.start()

    def _send_all(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                self._done.put(self._sender.send(job))
            except Exception:
                log.exception("a delivery failed unexpectedly")
                self._done.put(Outcome(job, NO_ANSWER, clock.real_now()))

    def _finished(self, seconds: float) -> list[Outcome]:
        """Return the outcomes since the last call; wait up to `seconds` for the first one."""
        if not self._in_flight:
            return []
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._done.get(timeout=seconds))
            while True:
                found.append(self._done.get_nowait())
        self._in_flight -= len(found)
        return found

    def _claim(self, endpoint: WebhookEndpoint, limit: int, wanted: Faults) -> list[Job]:
        now = clock.real_now()
        give_back_at = time.monotonic() + HAND_BACK_SECONDS
        keys = endpoints.signing_keys(endpoint, now)
        jobs = []
        with transaction.atomic():
            # Locked before its messages, as in endpoints.delete.
            locked = WebhookEndpoint.objects.select_for_update(no_key=True)
            if not locked.filter(pk=endpoint.pk).exists():
                return []
            for row in _lease_due(endpoint, limit, now):
                number, message_id, event_type, body, attempts, held, altered, *sent = row
                forged, stale, is_copy = sent
                is_new = not attempts and not is_copy
                if is_new and not held:
                    body, later = _apply_faults(number, body, altered, wanted, now)
                    if later:
                        continue
                jobs.append(
                    Job(
                        number,
                        message_id,
                        endpoint.id,
                        endpoint.url,
                        endpoint.headers,
                        keys,
                        body.encode(),
                        event_type,
                        attempts,
                        is_copy,
                        wanted.forges(number) if is_new and not forged else "",
                        wanted.ages(number) if is_new and not stale else 0,
                        give_back_at,
                    )
                )
        return jobs

    def _record(self, outcomes: Sequence[Outcome], wanted: Faults) -> None:
        if not outcomes:
            return
        with transaction.atomic():
            # Locked before their messages, as in endpoints.delete. Those of deleted endpoints
            # are gone.
            locked = WebhookEndpoint.objects.select_for_update(no_key=True).order_by("id")
            found = locked.in_bulk({outcome.job.endpoint_id for outcome in outcomes})
            outcomes = [outcome for outcome in outcomes if outcome.job.endpoint_id in found]
            if not outcomes:
                return
            rows = [_row(outcome, wanted) for outcome in outcomes]
            with connection.cursor() as cursor:
                cursor.execute(RECORD_SQL, [list(column) for column in zip(*rows, strict=True)])
            lost = [o for o, row in zip(outcomes, rows, strict=True) if row[1] == "failed"]
            _announce_exhausted(
                [outcome for outcome in lost if outcome.job.event_type != EXHAUSTED]
            )
            tried = [outcome for outcome in outcomes if outcome.status is not None]
            for endpoint in found.values():
                results = {o.succeeded for o in tried if o.job.endpoint_id == endpoint.id}
                if not results:
                    continue
                now = clock.real_now()
                endpoints.record_outcomes(
                    endpoint, True in results, False in results, now, wanted.retry_speed
                )


def _lease_due(endpoint: WebhookEndpoint, limit: int, now: datetime) -> list[tuple[Any, ...]]:
    """Lease up to `limit` due messages; oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            LEASE_SQL,
            {"leased": now + LEASE, "now": now, "endpoint": endpoint.id, "limit": limit},
        )
        return sorted(cursor.fetchall())


def _apply_faults(
    number: int, body: str, altered: bool, wanted: Faults, now: datetime
) -> tuple[str, bool]:
    """Apply faults to a message once. Return the body to send, and whether it must wait."""
    if unknown := wanted.unknown_type(number):
        original = Message.objects.select_related("endpoint").get(number=number)
        parsed = orjson.loads(body) | {"event_type": unknown}
        Message(
            message_id=event_queue.new_message_id(),
            endpoint=original.endpoint,
            event_type=unknown,
            user_id=original.user_id,
            body=orjson.dumps(parsed).decode(),
            happened_at=original.happened_at,
            queued_at=now,
            due_at=now,
            held=True,
        ).save()
        changes: dict[str, Any] = {"held": True}
    else:
        changes = {}
    changed = None if altered else wanted.altered(number, body)
    if changed is not None:
        body = changed
        changes |= {"held": True, "body": body, "altered": True}
    later = wanted.holds(number)
    if later is not None:
        changes |= {"held": True, "claimed": False, "due_at": now + later}
    if changes:
        Message.objects.filter(number=number).update(**changes)
    return body, later is not None


def _row(outcome: Outcome, wanted: Faults) -> tuple[Any, ...]:
    """Return the values for RECORD_SQL."""
    job, at = outcome.job, outcome.at
    if outcome.status is None:
        state = "pending"
        return job.number, state, at, 0, 0, 0, 0, 0, None, None
    besides = (int(bool(job.forgery)), int(bool(job.age)), outcome.swallowed)
    if job.is_copy:
        return job.number, "delivered", at, 0, 1, *besides, outcome.status, None
    attempts = job.attempts + 1
    if outcome.succeeded:
        later = wanted.copies(job.number)
        state = "delivered" if later is None else "pending"
        due_at = at if later is None else at + later
        return job.number, state, due_at, 1, 0, *besides, outcome.status, at
    if attempts > len(DELAYS):
        return job.number, "failed", at, 1, 0, *besides, outcome.status, at
    due_at = at + timedelta(seconds=DELAYS[attempts - 1]) / wanted.retry_speed
    return job.number, "pending", due_at, 1, 0, *besides, outcome.status, None


def _announce_exhausted(lost: Sequence[Outcome]) -> None:
    """Queue notices of messages that were given up, in their own form (webhooks.md 1)."""
    for outcome in lost:
        job = outcome.job
        body = {
            "type": EXHAUSTED,
            "data": {
                "msg_id": job.message_id,
                "endpoint_id": job.endpoint_id,
                "event_type": job.event_type,
                "attempts": job.attempts + 1,
                "last_attempt": {
                    "timestamp": outcome.at,
                    "response_status_code": outcome.status,
                },
            },
        }
        Message(
            message_id=event_queue.new_message_id(),
            endpoint_id=job.endpoint_id,
            event_type=EXHAUSTED,
            body=orjson.dumps(body).decode(),
            happened_at=outcome.at,
            queued_at=outcome.at,
            due_at=outcome.at,
            held=True,
        ).save()
