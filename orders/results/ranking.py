"""Results that are open follow what an administrator says of a word that no release knows.

A decision holds for what is stored from then on (`vocabulary.given`). Results that wait for
somebody are read again from their records, in batches: `read_under` tells under which decision a
result was read last, so a pass that ends early goes on where it stopped, and a worker that had not
heard of a decision is caught up with. A result whose reading changes gets another version, of the
same kind: a critical one alerts, and a decision that is taken back gives the former reading.

`follow_release` reads open results again that an earlier release has read, `follow_release_later`
all others: trends, pages of orders and of patients show them in the present reading. They stay
signed, and nobody is notified.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import DataError, connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from backoffice import mirror
from backoffice.core import changes, vocabulary
from backoffice.core.vocabulary import interpretations
from backoffice.mirror import MirrorRecord
from backoffice.models import UnknownValue
from backoffice.service import results as service_results
from backoffice.service.payload import Unreadable
from orders.models import Order, Result
from orders.results.identity import checks_of, lock_patients_of, write_checks
from orders.results.models import OPEN, Review
from orders.results.versions import carry_to_orders, note_versions
from orders.sync.results import RESULTS

BATCH: Final = 200
SECONDS: Final = 20.0
AFTER: Final = timedelta(minutes=2)
"""For so long a decision is looked after: longer than any batch of a sync takes."""
EVERY: Final = timedelta(seconds=10)

# Two lists, each by its partial index: one condition for both would read every review there is.
_OPEN: Final = """
 SELECT order_id FROM orders_review WHERE version > signed
 UNION SELECT order_id FROM orders_review WHERE critical_since IS NOT NULL
  AND (acknowledged < critical_since OR called < critical_since)
"""
_WITH_WORD: Final = f"""
SELECT r.order_id FROM orders_result r
WHERE r.read_under < %s AND r.order_id IN ({_OPEN}) AND (r.interpretation_received = ANY(%s)
 OR EXISTS (SELECT FROM orders_resultmarker m WHERE m.result_id = r.order_id
  AND (m.interpretation_received = ANY(%s) OR m.source_interpretation = ANY(%s))))
ORDER BY r.order_id LIMIT %s
"""
# From the open ones to their results, each by its key: the planner takes a third of all results
# for those of an earlier release, and would walk all of them.
_OF_BEFORE: Final = f"""
WITH open AS MATERIALIZED ({_OPEN})
SELECT open.order_id FROM open CROSS JOIN LATERAL (
 SELECT FROM orders_result r WHERE r.order_id = open.order_id
  AND get_byte(r.content_hash, length(r.content_hash) - 1) < %s OFFSET 0
) AS result LIMIT %s
"""
# The mark of the release is the last byte of the hash; by the index `result_revision` this finds
# the next ones, and costs nothing once there are none.
_ANY_OF_BEFORE: Final = """
SELECT r.order_id FROM orders_result r WHERE substring(r.content_hash, 16) < %s
ORDER BY substring(r.content_hash, 16), r.order_id LIMIT %s
"""
# A row is never waited for: whoever holds it stores the result, and the next pass looks again.
_LOCKED: Final = """
SELECT order_id, record, as_of FROM orders_result WHERE order_id = ANY(%s)
ORDER BY order_id FOR UPDATE SKIP LOCKED
"""
# What cannot be read again stays as it was stored, and is not tried for ever.
_LEFT: Final = """
UPDATE orders_result SET read_under = %s,
 content_hash = set_byte(content_hash, length(content_hash) - 1, %s)
WHERE order_id = ANY(%s)
"""
_ORDERS: Final = """
UPDATE orders_order SET service_interpretation = %s, interpretation = %s
WHERE id = ANY(SELECT id FROM orders_order WHERE interpretation_received = ANY(%s)
 AND service_interpretation IS DISTINCT FROM %s
 ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
"""
# It is our word for it that changed: nothing has happened to these orders.
_NO_NEWS: Final = "SELECT set_config('backoffice.no_news', 'on', true)"


def follow(now: datetime | None = None) -> int:
    """Read open results again whose words were ranked of late; how many were."""
    now = now or timezone.now()
    ends = time.monotonic() + SECONDS
    fresh = Q(spread_at=None) | Q(spread_at__lt=F("decided_at"))
    later = Q(spread_at__lt=F("decided_at") + AFTER, spread_at__lte=now - EVERY)
    words = UnknownValue.objects.filter(vocabulary__in=interpretations.VOCABULARIES)
    due = list(words.filter(fresh | later, decision__gt=0).order_by("decision"))
    if due:
        vocabulary.given.read()
    return sum(_follow(row, now, ends) for row in due)


def follow_release() -> int:
    """Read open results again that an earlier release has read; how many were."""
    ends = time.monotonic() + SECONDS
    moved = 0
    while time.monotonic() < ends and (done := _again(_OF_BEFORE, [RESULTS.revision, BATCH])):
        moved += done
    return moved


def follow_release_later() -> int:
    """Read all other results of an earlier release again, in batches of one transaction each; how
    many were. Where it is stopped, the next call goes on."""
    ends = time.monotonic() + SECONDS
    before = [RESULTS.revision.to_bytes(1, "big"), BATCH]
    moved = 0
    while time.monotonic() < ends and (done := _again(_ANY_OF_BEFORE, before)):
        moved += done
    return moved


def _follow(row: UnknownValue, now: datetime, ends: float) -> int:
    if vocabulary.is_known(row.vocabulary, row.value):
        return 0  # A release knows it by now, and has the last word.
    spellings = _spellings(row.value)
    mine = UnknownValue.objects.filter(pk=row.pk, decision=row.decision)
    reading = interpretations.canonical(row.value)
    rank = reading if reading in interpretations.RANKS_TO_GIVE else interpretations.UNKNOWN
    find = [row.decision, spellings, spellings, spellings, BATCH]
    moved = 0
    while done := _orders(rank, spellings) + _again(_WITH_WORD, find):
        moved += done
        mine.update(moved=F("moved") + done)
        if time.monotonic() >= ends:
            return moved
    mine.update(spread_at=now)
    return moved


def _spellings(value: str) -> list[str]:
    """Every spelling of a word that was met: a decision is about all of them."""
    words = UnknownValue.objects.filter(vocabulary__in=interpretations.VOCABULARIES)
    met = set(words.values_list("value", flat=True))
    return sorted(one for one in met | {value} if interpretations.is_same(one, value))


def _again(find: str, parameters: list[Any]) -> int:
    """The next results, read again from their records as they were received. Those that are open
    get another version where that says something new."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(find, parameters)
        keys = [key for (key,) in cursor.fetchall()]
        lock_patients_of(keys)  # Before the results, as who stores them does.
        cursor.execute(_LOCKED, [keys])
        found: list[tuple[UUID, str, datetime]] = cursor.fetchall()
        records = [record for record in _records(found) if _promoted(record)]
        read = [key for key, _, _ in found]
        reviews = Review.objects.filter(OPEN, pk__in=read)
        waiting = set(reviews.values_list("pk", flat=True))
        checks = checks_of(read)
        note_versions(waiting, reread=waiting, checks=checks)
        write_checks(checks)
        cursor.execute(_NO_NEWS)
        carry_to_orders(key for key in read if key not in waiting)
        if found:
            join = "JOIN unnest(%s::uuid[]) AS wanted(order_id) USING (order_id)"
            changes.rows_changed(Result, join, [mirror.uuid_array(read)], len(found))
        unread = {key for key, _, _ in found} - {record.key[0] for record in records}
        cursor.execute(_LEFT, [vocabulary.given.decision(), RESULTS.revision, list(unread)])
    return len(found)


def _records(found: Iterable[tuple[UUID, str, datetime]]) -> Iterable[MirrorRecord]:
    for key, record, as_of in found:
        read = service_results.RESULT.read(record.encode(), as_of)
        if not isinstance(read, Unreadable):
            yield MirrorRecord.from_service(read, key)


def _promoted(record: MirrorRecord) -> bool:
    try:
        with transaction.atomic():
            mirror.promote_again(RESULTS, [record])
    except (DataError, ValueError):
        return False
    return True


def _orders(rank: str, spellings: list[str]) -> int:
    """The next orders with this word; those with a result show the worse of both (a trigger)."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NO_NEWS)
        cursor.execute(_ORDERS, [rank, rank, spellings, rank, BATCH])
        moved = [key for (key,) in cursor.fetchall()]
        if moved:
            keys = mirror.uuid_array(moved)
            join = "JOIN unnest(%s::uuid[]) AS wanted(id) USING (id)"
            changes.rows_changed(Order, join, [keys], len(moved))
    return len(moved)
