"""Store each different version of a result, in the transaction that stores the result.

Here it is decided whether a whole result is critical: by its lines, or by what the lab says of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.db import connection

from backoffice.core import live_changes
from backoffice.core.prepared_queries import array
from orders.models.order import Order
from orders.rules.result_identity import IdentityCheck

_LINE_SQL: Final = """jsonb_strip_nulls(jsonb_build_object(
 'name', m.name, 'slug', nullif(m.slug, ''), 'text', nullif(m.text, ''), 'unit', m.unit,
 'range', m.reference_range, 'low', m.min_range_value, 'high', m.max_range_value,
 'above', m.is_above_max_range, 'below', m.is_below_min_range,
 'flag', nullif(m.interpretation, ''), 'side', nullif(m.side, ''),
 'word', m.interpretation_received, 'source', nullif(m.source_interpretation, ''),
 'notes', m.notes, 'loinc', m.loinc,
 'missing', nullif(m.is_missing, false), 'why', m.failure_type))"""

# Fields that a later release adds to a line do not make another version: the side, the lab's flag,
# the received interpretation.
_COMPARED_LINE_SQL: Final = """(marker.line - 'side' - 'source' -
 CASE WHEN marker.interpretation = 'unknown' THEN '' ELSE 'word' END)"""

_LOCK_SQL: Final = "SELECT FROM orders_result WHERE order_id = ANY(%s) ORDER BY order_id FOR UPDATE"

_CURRENT_SQL: Final = f"""
 SELECT r.order_id, r.as_of, r.status, r.returned, r.missing, steps.corrections,
  r.order_id = ANY(%s) AS is_reread,
  -- Lines raise the interpretation of the whole result and never lower it.
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
  -- A result that now names someone else is another version, whatever its values. The digest of
  -- all others stays as earlier releases made it: otherwise each would return as corrected.
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
  SELECT jsonb_agg(marker.line ORDER BY marker.position) AS as_sent,
   jsonb_agg({_COMPARED_LINE_SQL} ORDER BY {_COMPARED_LINE_SQL}) AS compared,
   bool_or(marker.interpretation = 'abnormal') AS is_abnormal,
   bool_or(marker.interpretation = 'unknown') AS is_uninterpreted,
   jsonb_agg(marker.line ORDER BY marker.line) FILTER (WHERE marker.is_critical) AS critical
  FROM (
   SELECT m.position, m.interpretation, m.interpretation = 'critical' AS is_critical,
    {_LINE_SQL} AS line
   FROM orders_resultmarker m WHERE m.result_id = r.order_id
  ) marker
 ) lines
 CROSS JOIN LATERAL (
  SELECT count(*) AS corrections FROM orders_orderevent e
  WHERE e.order_id = r.order_id AND e.low_level_status = 'corrected'
 ) steps
 CROSS JOIN LATERAL (
  SELECT jsonb_build_array(r.status, r.interpretation, steps.corrections, lines.compared) AS facts
 ) head
 WHERE r.order_id = ANY(%s)
"""
_DIGESTS_SQL: Final = (
    f"WITH present AS ({_CURRENT_SQL}) SELECT order_id, digest_of_facts FROM present"
)

_STORE_SQL: Final = f"""
WITH present AS ({_CURRENT_SQL}), newest AS (
 SELECT DISTINCT ON (order_id) order_id, number, kind, digest, critical, critical_since
 FROM orders_resultversion WHERE order_id = ANY(%s) ORDER BY order_id, number DESC
)
INSERT INTO orders_resultversion (order_id, number, received_at, kind, interpretation,
 has_uninterpreted, returned, missing, critical, critical_since, digest, content)
SELECT present.order_id, coalesce(newest.number, 0) + 1,
 CASE WHEN newest.number IS NULL THEN present.as_of ELSE clock_timestamp() END,
 CASE WHEN cause.is_our_reading THEN newest.kind
  WHEN present.status = 'partial' THEN 'partial'
  WHEN present.status NOT IN ('final', 'corrected') THEN 'unknown'
  WHEN present.status = 'corrected' THEN 'corrected'
  WHEN present.corrections > 0 OR EXISTS (
   SELECT FROM orders_resultversion v WHERE v.order_id = present.order_id AND v.kind <> 'partial'
  ) THEN 'corrected' ELSE 'final' END,
 present.interpretation, present.has_uninterpreted, present.returned, present.missing,
 present.critical,
 CASE WHEN NOT present.is_critical THEN NULL
  WHEN newest.critical_since IS NOT NULL AND newest.critical = present.critical
  THEN newest.critical_since ELSE coalesce(newest.number, 0) + 1 END,
 present.digest, present.content
FROM present LEFT JOIN newest USING (order_id) LEFT JOIN orders_review AS review USING (order_id)
CROSS JOIN LATERAL (
 -- The record is the same and no correction was announced: only our reading of it differs.
 SELECT present.is_reread AND newest.number IS NOT NULL AND coalesce((
  SELECT (v.content->>'corrections')::bigint = present.corrections FROM orders_resultversion v
  WHERE v.order_id = present.order_id AND v.number = newest.number
 ), true) AS is_our_reading
) AS cause
WHERE newest.digest IS DISTINCT FROM present.digest
 -- The newest version named somebody else, and by now we know that it is the patient.
 AND (present.names_somebody_else OR NOT EXISTS (
  SELECT FROM unnest(%s::uuid[], %s::text[]) AS printed (order_id, person)
  WHERE printed.order_id = present.order_id AND newest.digest = sha256(
   convert_to((present.facts || jsonb_build_array(printed.person))::text, 'UTF8'))
 ))
 AND (NOT cause.is_our_reading OR review.version > review.signed
  -- It now names someone else, and nobody has confirmed that it is the patient's.
  OR newest.digest = present.digest_of_facts AND NOT EXISTS (
   SELECT FROM orders_signature AS g WHERE g.order_id = present.order_id
    AND g.version = newest.number AND g.is_identity_confirmed)
  OR review.critical_since IS NOT NULL AND (review.acknowledged < review.critical_since
   OR review.called < review.critical_since))
ORDER BY present.order_id
"""


# To avoid deadlocks, results are always locked before orders.
_UPDATE_ORDERS_SQL: Final = """
WITH changed AS (
 SELECT o.id, coalesce(r.interpretation, '') AS reading
 FROM orders_order o JOIN orders_result r ON r.order_id = o.id
 WHERE o.id = ANY(%s)
  AND o.result_interpretation IS DISTINCT FROM coalesce(r.interpretation, '')
 ORDER BY o.id FOR NO KEY UPDATE OF o
)
UPDATE orders_order o SET result_interpretation = changed.reading
FROM changed WHERE o.id = changed.id
RETURNING o.id
"""


def update_order_interpretations(orders: Iterable[UUID]) -> int:
    """Copy the interpretation of results to their orders; return how many changed.

    An order shows the worse of its own interpretation and that of its result.
    """
    keys = list(orders)
    if not keys:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_UPDATE_ORDERS_SQL, [keys])
        moved_ids = [key for (key,) in cursor.fetchall()]
    if moved_ids:
        join = "JOIN unnest(%s::uuid[]) AS moved(id) USING (id)"
        live_changes.record_row_changes(Order, join, [moved_ids], len(moved_ids))
    return len(moved_ids)


def orders_with_result(orders: Iterable[UUID]) -> list[UUID]:
    """Return the ids among `orders` that have a stored result."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT order_id FROM orders_result WHERE order_id = ANY(%s::uuid[])", [array(orders)]
        )
        return [key for (key,) in cursor.fetchall()]


def digests_by_order(orders: Collection[UUID]) -> dict[UUID, bytes]:
    """Return the digests of the stored results of these orders, without the person."""
    if not orders:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_DIGESTS_SQL, [[], [], [], list(orders)])
        return {key: bytes(digest) for key, digest in cursor.fetchall()}


def store_versions(
    orders: Iterable[UUID],
    *,
    reread: Collection[UUID] = (),
    checks: Mapping[UUID, IdentityCheck] = MappingProxyType({}),
) -> int:
    """Store the current results of these orders as versions if they differ. Return how many.

    The rows are locked first, so the second of two workers continues from the version of the first.

    `reread`: results that the laboratory has not changed. If our reading of an open result changed,
    it gets a version of the same kind. A closed result gets none: a new release does not require
    another sign-off.

    `checks`: the comparisons of the persons on the results with the patients. A result that now
    names someone else is another version. A result that no longer names someone else is not,
    unless the laboratory changed the person.
    """
    keys = list(orders)
    if not keys:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_SQL, [keys])
        contradictions = {key: check.printed for key, check in checks.items() if check.contradicts}
        printed = [
            (key, person) for key in keys if key in checks for person in checks[key].possible_prints
        ]
        cursor.execute(
            _STORE_SQL,
            [
                list(reread),
                *(list(contradictions), list(contradictions.values())),
                *(keys, keys),
                *([key for key, _ in printed], [person for _, person in printed]),
            ],
        )
        count = int(cursor.rowcount)
    update_order_interpretations(keys)
    return count
