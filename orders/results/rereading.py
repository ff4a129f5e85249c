"""Read results again after a decision on an unknown word, and after a new release.

An administrator can decide the meaning of a word that no release knows. The decision applies to
everything stored after it (`vocabulary.decisions`). Open results that were stored before are read
again in batches from their stored records. `read_under` is the decision under which a result was
last read. So a pass that ends early continues where it stopped, and results are found that were
stored by a worker before it knew the decision. A result with a changed reading gets another version
of the same kind: a critical one alerts, and reverting a decision restores the former reading.

`reread_open_results` reads open results of an earlier release again. `reread_closed_results` reads
all others, so that trends and the pages of orders and patients show the current reading. Closed
results stay signed, and nobody is notified.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import DataError, connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from backoffice.core import live_changes, vocabulary
from backoffice.core.models import UnknownValue
from backoffice.core.vocabulary import interpretations
from backoffice.mirror.promotion import promote_again
from backoffice.mirror.rows import uuid_array
from backoffice.mirror.tables import MirrorRecord
from backoffice.service import results as service_results
from backoffice.service.payload import Unreadable
from orders.models import Order, Result
from orders.models.review import OPEN, Review
from orders.rules.result_identity import checks_by_order, lock_patients_of, write_checks
from orders.sync.result_versions import store_versions, update_order_interpretations
from orders.sync.results import RESULTS

BATCH_SIZE: Final = 200
MAX_SECONDS: Final = 20.0
RECHECK_PERIOD: Final = timedelta(minutes=2)
"""How long a decision is checked again. It is longer than any batch of a sync takes."""
RECHECK_INTERVAL: Final = timedelta(seconds=10)

# Two queries, each with its own partial index. One condition for both would read every review.
_OPEN_SQL: Final = """
 SELECT order_id FROM orders_review WHERE version > signed
 UNION SELECT order_id FROM orders_review WHERE critical_since IS NOT NULL
  AND (acknowledged < critical_since OR called < critical_since)
"""
_OPEN_WITH_WORD_SQL: Final = f"""
SELECT r.order_id FROM orders_result r
WHERE r.read_under < %s AND r.order_id IN ({_OPEN_SQL}) AND (r.interpretation_received = ANY(%s)
 OR EXISTS (SELECT FROM orders_resultmarker m WHERE m.result_id = r.order_id
  AND (m.interpretation_received = ANY(%s) OR m.source_interpretation = ANY(%s))))
ORDER BY r.order_id LIMIT %s
"""
# This goes from open reviews to their results, each by primary key. The planner expects that a
# third of all results are of an earlier release, and would scan all of them.
_OPEN_OUTDATED_SQL: Final = f"""
WITH open AS MATERIALIZED ({_OPEN_SQL})
SELECT open.order_id FROM open CROSS JOIN LATERAL (
 SELECT FROM orders_result r WHERE r.order_id = open.order_id
  AND get_byte(r.content_hash, length(r.content_hash) - 1) < %s OFFSET 0
) AS result LIMIT %s
"""
# The last byte of the hash is the revision of the reader. The index `result_revision` finds the
# next outdated results, and costs nothing once there are none.
_ANY_OUTDATED_SQL: Final = """
SELECT r.order_id FROM orders_result r WHERE substring(r.content_hash, 16) < %s
ORDER BY substring(r.content_hash, 16), r.order_id LIMIT %s
"""
# Locked rows are skipped: the lock holder is storing the result, and the next pass checks again.
_LOCK_SQL: Final = """
SELECT order_id, record, as_of FROM orders_result WHERE order_id = ANY(%s)
ORDER BY order_id FOR UPDATE SKIP LOCKED
"""
# Results that cannot be read again stay as stored, and are marked so that no later pass tries them.
_SKIP_SQL: Final = """
UPDATE orders_result SET read_under = %s,
 content_hash = set_byte(content_hash, length(content_hash) - 1, %s)
WHERE order_id = ANY(%s)
"""
_UPDATE_ORDERS_SQL: Final = """
UPDATE orders_order SET service_interpretation = %s, interpretation = %s
WHERE id = ANY(SELECT id FROM orders_order WHERE interpretation_received = ANY(%s)
 AND service_interpretation IS DISTINCT FROM %s
 ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
"""
# Only our reading of the word changed, so the triggers must not record activity.
_NO_ACTIVITY_SQL: Final = "SELECT set_config('backoffice.no_activity', 'on', true)"


def apply_decisions(now: datetime | None = None) -> int:
    """Read open results again after recent decisions on their words; return how many."""
    now = now or timezone.now()
    ends = time.monotonic() + MAX_SECONDS
    fresh = Q(spread_at=None) | Q(spread_at__lt=F("decided_at"))
    later = Q(spread_at__lt=F("decided_at") + RECHECK_PERIOD, spread_at__lte=now - RECHECK_INTERVAL)
    words = UnknownValue.objects.filter(vocabulary__in=interpretations.VOCABULARIES)
    due = list(words.filter(fresh | later, decision__gt=0).order_by("decision"))
    if due:
        vocabulary.decisions.reload()
    return sum(_apply_decision(row, now, ends) for row in due)


def reread_open_results() -> int:
    """Read open results again that an earlier release has read; return how many."""
    ends = time.monotonic() + MAX_SECONDS
    count = 0
    while time.monotonic() < ends and (
        batch_count := _reread_batch(_OPEN_OUTDATED_SQL, RESULTS.revision, BATCH_SIZE)
    ):
        count += batch_count
    return count


def reread_closed_results() -> int:
    """Read all other results of an earlier release again; return how many.

    Each batch is one transaction. If it is stopped, the next call continues.
    """
    ends = time.monotonic() + MAX_SECONDS
    revision = RESULTS.revision.to_bytes(1, "big")
    count = 0
    while time.monotonic() < ends and (
        batch_count := _reread_batch(_ANY_OUTDATED_SQL, revision, BATCH_SIZE)
    ):
        count += batch_count
    return count


def _apply_decision(row: UnknownValue, now: datetime, ends: float) -> int:
    if vocabulary.is_known(row.vocabulary, row.value):
        return 0  # A release knows the word by now and takes precedence.
    spellings = _spellings(row.value)
    own_row = UnknownValue.objects.filter(pk=row.pk, decision=row.decision)
    reading = interpretations.canonical(row.value)
    rank = reading if reading in interpretations.RANKS_TO_GIVE else interpretations.UNKNOWN
    parameters = (row.decision, spellings, spellings, spellings, BATCH_SIZE)
    count = 0
    while batch_count := (
        _update_orders(rank, spellings) + _reread_batch(_OPEN_WITH_WORD_SQL, *parameters)
    ):
        count += batch_count
        own_row.update(moved=F("moved") + batch_count)
        if time.monotonic() >= ends:
            return count
    own_row.update(spread_at=now)
    return count


def _spellings(value: str) -> list[str]:
    """Return every spelling of a word that was received. A decision applies to all of them."""
    words = UnknownValue.objects.filter(vocabulary__in=interpretations.VOCABULARIES)
    spellings = set(words.values_list("value", flat=True))
    return sorted(
        spelling for spelling in spellings | {value} if interpretations.is_same(spelling, value)
    )


def _reread_batch(find: str, *parameters: int | bytes | list[str]) -> int:
    """Read the next results again from their raw records; return how many.

    Open results get another version if the new reading differs.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(find, parameters)
        keys = [key for (key,) in cursor.fetchall()]
        lock_patients_of(keys)  # Before the results, as the code that stores them does.
        cursor.execute(_LOCK_SQL, [keys])
        batch: list[tuple[UUID, str, datetime]] = cursor.fetchall()
        records = [record for record in _records(batch) if _promote(record)]
        locked = [key for key, _, _ in batch]
        reviews = Review.objects.filter(OPEN, pk__in=locked)
        open_keys = set(reviews.values_list("pk", flat=True))
        checks = checks_by_order(locked)
        store_versions(open_keys, reread=open_keys, checks=checks)
        write_checks(checks)
        cursor.execute(_NO_ACTIVITY_SQL)
        update_order_interpretations(key for key in locked if key not in open_keys)
        if batch:
            join = "JOIN unnest(%s::uuid[]) AS reread(order_id) USING (order_id)"
            live_changes.record_row_changes(Result, join, [uuid_array(locked)], len(batch))
        unread = set(locked) - {record.key[0] for record in records}
        cursor.execute(
            _SKIP_SQL, [vocabulary.decisions.last_decision(), RESULTS.revision, list(unread)]
        )
    return len(batch)


def _records(batch: Iterable[tuple[UUID, str, datetime]]) -> Iterator[MirrorRecord]:
    for key, record, as_of in batch:
        result = service_results.RESULT.read(record.encode(), as_of)
        if not isinstance(result, Unreadable):
            yield MirrorRecord.from_service(result, key)


def _promote(record: MirrorRecord) -> bool:
    try:
        with transaction.atomic():
            promote_again(RESULTS, [record])
    except (DataError, ValueError):
        return False
    return True


def _update_orders(rank: str, spellings: list[str]) -> int:
    """Update the next orders with this word; return how many.

    A trigger sets orders that have a result to the worse of both interpretations.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NO_ACTIVITY_SQL)
        cursor.execute(_UPDATE_ORDERS_SQL, [rank, rank, spellings, rank, BATCH_SIZE])
        moved_ids = [key for (key,) in cursor.fetchall()]
        if moved_ids:
            keys = uuid_array(moved_ids)
            join = "JOIN unnest(%s::uuid[]) AS moved(id) USING (id)"
            live_changes.record_row_changes(Order, join, [keys], len(moved_ids))
    return len(moved_ids)
