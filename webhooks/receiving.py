"""Verify a webhook delivery, store it, and answer. Nothing else happens here.

`receive` does not depend on a web framework. It checks the headers, reads at most the allowed
number of bytes, verifies the signature over the raw bytes, and commits one row. It parses the body
only as far as the event log needs. A body that cannot be parsed is stored, too. It calls neither
Redis nor Celery nor the service, so none of them can delay the answer to the sender.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache

import psycopg
from django.conf import settings
from django.db import Error as DjangoDatabaseError
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from backoffice.service import signing
from backoffice.service.events import Misread
from webhooks import event_envelope
from webhooks.group_commit import GroupCommit, RowValues

logger = logging.getLogger(__name__)

DATABASE = "hooks"
RETRY_AFTER = 30
"""Seconds after which the sender should try again when the delivery could not be stored."""

_ON_REPEAT = """
ON CONFLICT (message_id) DO UPDATE SET
 deliveries = held.deliveries + 1,
 last_received_at = now(),
 body_conflict = held.body_conflict OR held.body_digest <> excluded.body_digest
"""
_COLUMNS = (
    *("message_id", "sent_at", "key_id", "body", "body_digest", "event_type"),
    *("subject_id", "user_id", "team_id"),
)
INSERT_DEAD_SQL = f"""
INSERT INTO webhooks_event AS held (message_id, sent_at, key_id, body, body_digest, event_type,
 reason, path, state, outcome, applied_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'dead', 'failed', now()) {_ON_REPEAT}
"""
STORED_ALREADY_SQL = "SELECT 1 FROM webhooks_event WHERE message_id = $1 AND body_digest = $2"
MAX_GROUP_SIZE = 16
"""Most rows of one statement. It is more than the number of threads of a server process."""
FLOOD_PER_MINUTE = 20
"""Number of refusals for one reason in one minute. More of them count as a flood."""
COUNT_REFUSALS_SQL = f"""
INSERT INTO webhooks_refusal AS held (hour, reason, times, seconds_off, minute, in_minute, flood_at)
SELECT date_trunc('hour', now(), 'UTC'), given.reason, given.times, given.seconds_off,
 date_trunc('minute', now()), given.times, CASE WHEN given.times > {FLOOD_PER_MINUTE} THEN now() END
FROM (VALUES ($1::text, $2::bigint, $3::float)) AS given (reason, times, seconds_off)
ON CONFLICT (hour, reason) DO UPDATE SET times = held.times + excluded.times, last_at = now(),
 seconds_off = coalesce(excluded.seconds_off, held.seconds_off),
 minute = excluded.minute,
 in_minute = excluded.in_minute
  + CASE WHEN held.minute = excluded.minute THEN held.in_minute ELSE 0 END,
 flood_at = CASE WHEN excluded.in_minute
  + CASE WHEN held.minute = excluded.minute THEN held.in_minute ELSE 0 END > {FLOOD_PER_MINUTE}
  THEN now() ELSE held.flood_at END
"""


@dataclass(frozen=True, slots=True)
class DeliveryResponse:
    """The answer to the sender. 2xx: the delivery is stored, do not send it again."""

    status: int
    reason: str = ""
    retry_after: int | None = None
    seconds_off: float | None = None
    """For a stale delivery: its signed time minus our time, in seconds."""


STORED = DeliveryResponse(204)


def receive(headers: Mapping[str, str], read: Callable[[int], bytes]) -> DeliveryResponse:
    """Store one delivery, or return the reason why it is refused.

    The keys of `headers` are lower-case names. `read(n)` returns the next bytes of the body, at
    most `n`, and no bytes at the end.
    """
    answer = _verify_and_store(headers, read)
    if answer.status >= 400:
        _refusal_counter.count(answer.reason, answer.seconds_off)
    return answer


def _verify_and_store(headers: Mapping[str, str], read: Callable[[int], bytes]) -> DeliveryResponse:
    secrets = _parsed_secrets(tuple(settings.WEBHOOK_SECRETS))
    if not secrets:
        return DeliveryResponse(503, "not configured", RETRY_AFTER)
    if headers.get("content-encoding", "identity").lower() != "identity":
        return DeliveryResponse(415, "encoded body")
    try:
        # Checked first, so that the body of a request without valid headers is not read.
        signing.parse_signature_headers(headers, settings.WEBHOOK_HEADER_PREFIXES)
        body = _read_body(headers.get("content-length"), read, settings.WEBHOOK_MAX_BYTES)
        if isinstance(body, DeliveryResponse):
            return body
        delivery = signing.verify(
            body, headers, secrets, settings.WEBHOOK_HEADER_PREFIXES, datetime.now(UTC)
        )
    except signing.Misshapen as error:
        return DeliveryResponse(401 if error.part == "signature" else 400, str(error))
    except signing.Stale as error:
        return DeliveryResponse(401, error.reason, seconds_off=error.seconds_off)
    except signing.Unverified as error:
        return DeliveryResponse(401, error.reason)
    try:
        return _store(delivery, body)
    except (psycopg.Error, DjangoDatabaseError) as error:
        logger.warning("a delivery could not be stored", extra={"error": type(error).__name__})
        return DeliveryResponse(503, "not stored", RETRY_AFTER)


def _read_body(
    length: str | None, read: Callable[[int], bytes], max_bytes: int
) -> bytes | DeliveryResponse:
    """Return the whole body. At most `max_bytes` + 1 bytes are read, whatever the header says."""
    if length and not (length.isascii() and length.isdigit()):
        return DeliveryResponse(400, "misshapen length")
    promised = int(length) if length else None
    if promised is not None and promised > max_bytes:
        return DeliveryResponse(413, "too large")
    remaining = max_bytes + 1 if promised is None else promised
    parts: list[bytes] = []
    while remaining > 0 and (part := read(remaining)):
        parts.append(part)
        remaining -= len(part)
    if promised is None and remaining <= 0:
        return DeliveryResponse(413, "too large")
    if promised is not None and remaining != 0:
        return DeliveryResponse(400, "cut short")
    return parts[0] if len(parts) == 1 else b"".join(parts)


@lru_cache(maxsize=8)
def _parsed_secrets(texts: tuple[str, ...]) -> tuple[signing.Secret, ...]:
    return signing.read_secrets(texts)


def _store(delivery: signing.VerifiedDelivery, body: bytes) -> DeliveryResponse:
    values = delivery.message_id, delivery.sent_at, delivery.key, body, _digest(body)
    try:
        envelope = event_envelope.read(body)
    except Misread as error:
        statement: str = INSERT_DEAD_SQL
        row: tuple[object, ...] = (
            *values,
            error.event_type,
            *event_envelope.describe_error(error),
        )
    else:
        subject_id, user_id = event_envelope.subject(envelope)
        # As text, so that the statement is the same with and without these ids.
        ids = (str(key) if key else None for key in (user_id, envelope.team_id))
        row = (*values, envelope.event_type, subject_id, *ids)
        statement = _insert_sql(1)
        if _group_commit.store(row):
            return STORED
    try:
        _execute(statement, row)
    except psycopg.errors.LockNotAvailable:
        # A worker is applying the event that this delivery repeats. The event is stored, and the
        # count of repeats may be one too low. But a different body must be flagged: raise an error,
        # so that the sender tries again.
        if not _execute(STORED_ALREADY_SQL, (delivery.message_id, _digest(body))):
            raise
    return STORED


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()[:16]


def _execute(
    statement: str, values: tuple[object, ...], wrapper: BaseDatabaseWrapper | None = None
) -> int:
    """Run one statement on the connection of this thread, or on `wrapper`. Return the row count.

    If the connection was lost, connect again once.
    """
    wrapper = wrapper or connections[DATABASE]
    for is_last in (False, True):
        wrapper.ensure_connection()
        database = wrapper.connection
        try:
            # A prepared statement with binary parameters: Django's cursor would write the body into
            # the statement. A raw cursor: other cursors parse the placeholders, and do so on every
            # call for a statement with more than fifty.
            cursor = psycopg.RawCursor(database)
            return cursor.execute(statement.encode(), values, prepare=True).rowcount
        except psycopg.Error:
            if is_last or not (database.broken or database.closed):
                raise
            wrapper.close()
    raise AssertionError("unreachable")


@cache
def group_connection() -> BaseDatabaseWrapper:
    """Return the one connection that stores all groups, whichever thread writes them.

    Only one group is written at a time, so one connection is enough. Its statements are prepared
    once, not once per thread.
    """
    wrapper = connections.create_connection(DATABASE)
    wrapper.inc_thread_sharing()
    return wrapper


def _store_group(rows: Sequence[RowValues]) -> None:
    # Sorted by key to avoid deadlocks: another process may store the same messages.
    ordered = sorted(rows, key=lambda row: str(row[0]))
    values = tuple(value for row in ordered for value in row)
    _execute(_insert_sql(len(rows)), values, group_connection())


@lru_cache(maxsize=MAX_GROUP_SIZE)
def _insert_sql(count: int) -> str:
    """Return the statement that inserts `count` events."""
    numbers = iter(range(1, count * len(_COLUMNS) + 1))
    rows = (", ".join(f"${next(numbers)}" for _ in _COLUMNS) for _ in range(count))
    values = ", ".join(f"({row})" for row in rows)
    return (
        f"INSERT INTO webhooks_event AS held ({', '.join(_COLUMNS)}) VALUES {values} {_ON_REPEAT}"
    )


_group_commit = GroupCommit(_store_group, MAX_GROUP_SIZE)


class RefusalCounter:
    """Counts refused deliveries by reason.

    Every `every` seconds, one log line and one row per reason are written, however many deliveries
    are refused. The first refusal is written at once, later ones when the interval ends.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds_off: dict[str, float] = {}
        self._next = 0.0
        self._timer: threading.Timer | None = None

    def count(self, reason: str, seconds_off: float | None = None) -> None:
        with self._lock:
            self._counts[reason] += 1
            if seconds_off is not None:
                self._seconds_off[reason] = seconds_off
            wait = self._next - time.monotonic()
            if wait > 0:
                if self._timer is None:
                    self._timer = threading.Timer(wait, self._write_later)
                    self._timer.daemon = True
                    self._timer.start()
                return
        self.write()

    def write(self) -> None:
        """Write the counts now."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._next = time.monotonic() + self._every
            counts, self._counts = self._counts, Counter()
            seconds_off = dict(self._seconds_off)
        for reason, times in sorted(counts.items()):
            try:
                _execute(COUNT_REFUSALS_SQL, (reason, times, seconds_off.get(reason)))
            except (psycopg.Error, DjangoDatabaseError):
                # A failed write must not fail the request. These counts are added to the next ones.
                with self._lock:
                    self._counts[reason] += times
            else:
                logger.warning("deliveries refused: %s, %d", reason, times)

    def _write_later(self) -> None:
        try:
            self.write()
        finally:
            connections.close_all()


_refusal_counter = RefusalCounter(every=5.0)
