"""Every version of a result that says something new is kept, in the transaction that stores it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.db import connection

from backoffice.core import changes
from backoffice.core.prepared_queries import array
from orders.models.order import Order
from orders.results.identity import IdentityCheck

_ONE_LINE: Final = """jsonb_strip_nulls(jsonb_build_object(
 'name', m.name, 'slug', nullif(m.slug, ''), 'text', nullif(m.text, ''), 'unit', m.unit,
 'range', m.reference_range, 'low', m.min_range_value, 'high', m.max_range_value,
 'above', m.is_above_max_range, 'below', m.is_below_min_range,
 'flag', nullif(m.interpretation, ''), 'side', nullif(m.side, ''),
 'word', m.interpretation_received, 'source', nullif(m.source_interpretation, ''),
 'notes', m.notes, 'loinc', m.loinc,
 'missing', nullif(m.is_missing, false), 'why', m.failure_type))"""

# What adds to a reading makes no other version: the side, the lab's flag, the word that was read.
_NEWS: Final = """(one.line - 'side' - 'source' -
 CASE WHEN one.interpretation = 'unknown' THEN '' ELSE 'word' END)"""

_LOCK: Final = "SELECT FROM orders_result WHERE order_id = ANY(%s) ORDER BY order_id FOR UPDATE"

_TOLD: Final = f"""
 SELECT r.order_id, r.as_of, r.status, r.returned, r.missing, steps.corrections,
  r.order_id = ANY(%s) AS is_reread,
  -- The lines raise the head, and never lower it.
  CASE WHEN lines.critical IS NOT NULL OR r.interpretation = 'critical' THEN 'critical'
   WHEN lines.is_abnormal OR r.interpretation = 'abnormal' THEN 'abnormal'
   WHEN lines.is_uninterpreted THEN 'unknown'
   ELSE r.interpretation END AS interpretation,
  coalesce(lines.is_uninterpreted, false) OR coalesce(r.interpretation = 'unknown', false)
   AS has_uninterpreted,
  jsonb_build_object(
   'status', r.status, 'laboratory', r.laboratory, 'specimen', r.specimen_number,
   'collected', r.date_collected, 'received', r.date_received, 'reported', r.date_reported,
   'corrections', steps.corrections, 'lines', coalesce(lines.as_sent, '[]')
  ) AS content,
  -- A result that comes to name somebody else is another version, whatever its values. The digest
  -- of any other stays as earlier releases made it: else each would come back as corrected.
  head.facts, sha256(convert_to(head.facts::text, 'UTF8')) AS digest_of_facts,
  sha256(convert_to((head.facts || CASE WHEN other.person IS NULL THEN '[]'
   ELSE jsonb_build_array(other.person) END)::text, 'UTF8')) AS digest,
  other.person IS NOT NULL AS names_somebody_else,
  coalesce(lines.critical, '[]') AS critical,
  coalesce(r.interpretation = 'critical', false) OR lines.critical IS NOT NULL AS is_critical
 FROM orders_result r
 LEFT JOIN unnest(%s::uuid[], %s::text[]) AS other (order_id, person)
  ON other.order_id = r.order_id
 CROSS JOIN LATERAL (
  SELECT jsonb_agg(one.line ORDER BY one.position) AS as_sent,
   jsonb_agg({_NEWS} ORDER BY {_NEWS}) AS news,
   bool_or(one.interpretation = 'abnormal') AS is_abnormal,
   bool_or(one.interpretation = 'unknown') AS is_uninterpreted,
   jsonb_agg(one.line ORDER BY one.line) FILTER (WHERE one.is_critical) AS critical
  FROM (
   SELECT m.position, m.interpretation, m.interpretation = 'critical' AS is_critical,
    {_ONE_LINE} AS line
   FROM orders_resultmarker m WHERE m.result_id = r.order_id
  ) one
 ) lines
 CROSS JOIN LATERAL (
  SELECT count(*) AS corrections FROM orders_orderevent e
  WHERE e.order_id = r.order_id AND e.low_level_status = 'corrected'
 ) steps
 CROSS JOIN LATERAL (
  SELECT jsonb_build_array(r.status, r.interpretation, steps.corrections, lines.news) AS facts
 ) head
 WHERE r.order_id = ANY(%s)
"""
_DIGESTS: Final = f"WITH told AS ({_TOLD}) SELECT order_id, digest_of_facts FROM told"

_NOTE: Final = f"""
WITH told AS ({_TOLD}), newest AS (
 SELECT DISTINCT ON (order_id) order_id, number, kind, digest, critical, critical_since
 FROM orders_resultversion WHERE order_id = ANY(%s) ORDER BY order_id, number DESC
)
INSERT INTO orders_resultversion (order_id, number, received_at, kind, interpretation,
 has_uninterpreted, returned, missing, critical, critical_since, digest, content)
SELECT told.order_id, coalesce(newest.number, 0) + 1,
 CASE WHEN newest.number IS NULL THEN told.as_of ELSE clock_timestamp() END,
 CASE WHEN cause.is_our_reading THEN newest.kind
  WHEN told.status = 'partial' THEN 'partial'
  WHEN told.status NOT IN ('final', 'corrected') THEN 'unknown'
  WHEN told.status = 'corrected' THEN 'corrected'
  WHEN told.corrections > 0 OR EXISTS (
   SELECT FROM orders_resultversion v WHERE v.order_id = told.order_id AND v.kind <> 'partial'
  ) THEN 'corrected' ELSE 'final' END,
 told.interpretation, told.has_uninterpreted, told.returned, told.missing, told.critical,
 CASE WHEN NOT told.is_critical THEN NULL
  WHEN newest.critical_since IS NOT NULL AND newest.critical = told.critical
  THEN newest.critical_since ELSE coalesce(newest.number, 0) + 1 END,
 told.digest, told.content
FROM told LEFT JOIN newest USING (order_id) LEFT JOIN orders_review AS review USING (order_id)
CROSS JOIN LATERAL (
 -- The same record, and no correction was announced: only our reading of it differs.
 SELECT told.is_reread AND newest.number IS NOT NULL AND coalesce((
  SELECT (v.content->>'corrections')::bigint = told.corrections FROM orders_resultversion v
  WHERE v.order_id = told.order_id AND v.number = newest.number
 ), true) AS is_our_reading
) AS cause
WHERE newest.digest IS DISTINCT FROM told.digest
 -- The newest version named somebody else, and we know by now that it is the patient.
 AND (told.names_somebody_else OR NOT EXISTS (
  SELECT FROM unnest(%s::uuid[], %s::text[]) AS printed (order_id, person)
  WHERE printed.order_id = told.order_id AND newest.digest = sha256(
   convert_to((told.facts || jsonb_build_array(printed.person))::text, 'UTF8'))
 ))
 AND (NOT cause.is_our_reading OR review.version > review.signed
  -- It comes to name somebody else, and nobody has confirmed that it is the patient's.
  OR newest.digest = told.digest_of_facts AND NOT EXISTS (
   SELECT FROM orders_signature AS g WHERE g.order_id = told.order_id
    AND g.version = newest.number AND g.is_identity_confirmed)
  OR review.critical_since IS NOT NULL AND (review.acknowledged < review.critical_since
   OR review.called < review.critical_since))
ORDER BY told.order_id
"""


# Deadlocks: results are locked before orders, here and nowhere the other way round.
_CARRY: Final = """
WITH held AS (
 SELECT o.id, coalesce(r.interpretation, '') AS reading
 FROM orders_order o JOIN orders_result r ON r.order_id = o.id
 WHERE o.id = ANY(%s)
  AND o.result_interpretation IS DISTINCT FROM coalesce(r.interpretation, '')
 ORDER BY o.id FOR NO KEY UPDATE OF o
)
UPDATE orders_order o SET result_interpretation = held.reading FROM held WHERE o.id = held.id
RETURNING o.id
"""


def carry_to_orders(orders: Iterable[UUID]) -> int:
    """Let orders show what their results say, where that is worse. Returns how many changed."""
    keys = list(orders)
    if not keys:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_CARRY, [keys])
        moved = [key for (key,) in cursor.fetchall()]
    if moved:
        join = "JOIN unnest(%s::uuid[]) AS wanted(id) USING (id)"
        changes.rows_changed(Order, join, [moved], len(moved))
    return len(moved)


def orders_with_result(orders: Iterable[UUID]) -> list[UUID]:
    """Those of these orders whose results are stored."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT order_id FROM orders_result WHERE order_id = ANY(%s::uuid[])", [array(orders)]
        )
        return [key for (key,) in cursor.fetchall()]


def digests_of(orders: Collection[UUID]) -> dict[UUID, bytes]:
    """Of what these results say as they are stored, without the person."""
    if not orders:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_DIGESTS, [[], [], [], list(orders)])
        return {key: bytes(digest) for key, digest in cursor.fetchall()}


def note_versions(
    orders: Iterable[UUID],
    *,
    reread: Collection[UUID] = (),
    checks: Mapping[UUID, IdentityCheck] = MappingProxyType({}),
) -> int:
    """Keep the results of these orders as they now stand, where that is news. Returns how many.

    The rows are locked first: of two workers, the second counts on from the first one's version.
    `reread`: those of which the laboratory has changed nothing since. Where our reading of them
    changed, an open result gets a version of the same kind, and a closed one none: what was signed
    is not to be signed again because of a release.
    `checks`: the persons on them beside the patients. One that comes to name somebody else is
    another version; one that does so no longer is none, unless the laboratory changed the person.
    """
    keys = list(orders)
    if not keys:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [keys])
        others = {key: check.printed for key, check in checks.items() if check.contradicts}
        printed = [(key, person) for key in keys if key in checks for person in checks[key].forms]
        cursor.execute(
            _NOTE,
            [
                list(reread),
                *(list(others), list(others.values())),
                *(keys, keys),
                *([key for key, _ in printed], [person for _, person in printed]),
            ],
        )
        noted = int(cursor.rowcount)
    carry_to_orders(keys)
    return noted
