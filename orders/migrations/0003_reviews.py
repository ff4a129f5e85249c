"""The state of a review, derived in the database by functions and triggers.

Triggers reject every change of rows that were added. Only the owner of the tables may TRUNCATE
them.

A new version, signature, acknowledgement, call or critical event makes the database derive the
review again from all of them. The function first locks the review and reads in the next statement,
which sees everything committed before it. So the second of two writers reads what the first one has
written.
"""

from __future__ import annotations

from typing import Final

from django.db import migrations

APPENDED: Final = {
    "orders_resultversion": "",
    "orders_signature": "at",
    "orders_criticalacknowledgement": "at",
    "orders_criticalcall": "at",
}
"""Append-only tables, with the column for the time. Only a trigger sets that column."""

DERIVE: Final = """
CREATE FUNCTION orders_derive_reviews(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
 INSERT INTO orders_review (order_id, version, kind, rank, signed, seen, acknowledged, called)
 SELECT DISTINCT id, -1, '', 0, -1, -1, -1, -1 FROM unnest(ids) AS id ORDER BY id
 ON CONFLICT DO NOTHING;
 PERFORM FROM orders_review WHERE order_id = ANY(ids) ORDER BY order_id FOR UPDATE;
 UPDATE orders_review AS held SET
  user_id = coalesce(o.user_id, c.user_id),
  lab_slug = o.lab_slug,
  version = coalesce(v.number, CASE WHEN c.order_id IS NULL THEN -1 ELSE 0 END),
  kind = coalesce(v.kind, ''),
  since = coalesce(v.received_at, c.first_heard_at, held.since),
  signed = coalesce(s.signed, -1),
  seen = coalesce(s.seen, -1),
  signer_id = s.signer_id,
  critical_since = critical.since,
  acknowledged = coalesce(a.version, -1),
  called = coalesce(reached.version, -1),
  next_call_at = latest.next_attempt_at,
  rank = CASE
   WHEN critical.since IS NOT NULL THEN 0
   WHEN s.seen = v.number THEN 6
   WHEN v.interpretation = 'abnormal' THEN 1
   WHEN v.kind = 'corrected' THEN 2
   WHEN v.kind = 'partial' THEN 5
   WHEN v.interpretation = 'normal' THEN 4
   ELSE 3 END
 FROM unnest(ids) AS wanted(id)
 LEFT JOIN orders_order o ON o.id = wanted.id
 LEFT JOIN orders_criticalresult c ON c.order_id = wanted.id
 LEFT JOIN LATERAL (
  SELECT * FROM orders_resultversion WHERE order_id = wanted.id ORDER BY number DESC LIMIT 1
 ) v ON true
 CROSS JOIN LATERAL (
  SELECT max(g.version) FILTER (WHERE g.kind = 'signed') AS signed,
   max(g.version) FILTER (WHERE g.kind = 'acknowledged') AS seen,
   (array_agg(g.by_id ORDER BY g.id DESC) FILTER (WHERE g.kind = 'signed'))[1] AS signer_id
  FROM orders_signature g
  WHERE g.order_id = wanted.id AND g.kind <> 'undone'
   AND NOT EXISTS (SELECT FROM orders_signature u WHERE u.undoes_id = g.id)
 ) s
 CROSS JOIN LATERAL (
  SELECT max(version) AS version FROM orders_criticalacknowledgement WHERE order_id = wanted.id
 ) a
 CROSS JOIN LATERAL (
  SELECT max(version) AS version FROM orders_criticalcall
  WHERE order_id = wanted.id AND outcome <> 'not_reached'
 ) reached
 LEFT JOIN LATERAL (
  SELECT next_attempt_at FROM orders_criticalcall
  WHERE order_id = wanted.id ORDER BY id DESC LIMIT 1
 ) latest ON true
 CROSS JOIN LATERAL (
  -- An announcement that no version has borne out stands until somebody has dealt with it.
  SELECT CASE WHEN v.critical_since IS NOT NULL THEN v.critical_since
   WHEN c.order_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM orders_resultversion e
    WHERE e.order_id = wanted.id AND e.critical_since IS NOT NULL
   ) THEN 0 END AS since
 ) critical
 WHERE held.order_id = wanted.id;
END $$;

CREATE FUNCTION orders_review_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE ids uuid[];
BEGIN
 SELECT array_agg(DISTINCT order_id) INTO ids FROM fresh;
 IF ids IS NOT NULL THEN PERFORM orders_derive_reviews(ids); END IF;
 RETURN NULL;
END $$;

CREATE FUNCTION orders_only_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION orders_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 NEW.at := clock_timestamp();
 RETURN NEW;
END $$;
"""

# Each statement that changed a sum adds one tally row. Rows are never updated, so writers do not
# wait for each other.
TALLY: Final = """
CREATE FUNCTION orders_tally_reviews() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 IF TG_OP = 'UPDATE' THEN
  INSERT INTO orders_reviewtally (counted, delta)
  SELECT counted, sum(sign)::int FROM (
   SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END AS counted, 1 AS sign
   FROM fresh WHERE version > signed
   UNION ALL
   SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END, -1
   FROM gone WHERE version > signed
  ) moved GROUP BY counted HAVING sum(sign) <> 0;
 ELSIF TG_OP = 'INSERT' THEN
  INSERT INTO orders_reviewtally (counted, delta)
  SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END, count(*)
  FROM fresh WHERE version > signed GROUP BY 1;
 ELSE
  INSERT INTO orders_reviewtally (counted, delta)
  SELECT CASE WHEN seen = version THEN 'seen' ELSE 'unsigned' END, -count(*)
  FROM gone WHERE version > signed GROUP BY 1;
 END IF;
 RETURN NULL;
END $$;
CREATE TRIGGER tally_update AFTER UPDATE ON orders_review
 REFERENCING NEW TABLE AS fresh OLD TABLE AS gone
 FOR EACH STATEMENT EXECUTE FUNCTION orders_tally_reviews();
CREATE TRIGGER tally_insert AFTER INSERT ON orders_review REFERENCING NEW TABLE AS fresh
 FOR EACH STATEMENT EXECUTE FUNCTION orders_tally_reviews();
CREATE TRIGGER tally_delete AFTER DELETE ON orders_review REFERENCING OLD TABLE AS gone
 FOR EACH STATEMENT EXECUTE FUNCTION orders_tally_reviews();
"""


def forwards() -> str:
    statements = [DERIVE, TALLY]
    for table, stamped in APPENDED.items():
        statements.append(
            f"CREATE TRIGGER only_added BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION orders_only_added();"
        )
        if stamped:
            statements.append(
                f"CREATE TRIGGER stamp BEFORE INSERT ON {table}"
                " FOR EACH ROW EXECUTE FUNCTION orders_stamp();"
            )
    statements += [
        f"CREATE TRIGGER review_moved AFTER INSERT ON {table} REFERENCING NEW TABLE AS fresh"
        " FOR EACH STATEMENT EXECUTE FUNCTION orders_review_moved();"
        for table in (*APPENDED, "orders_criticalresult")
    ]
    return "\n".join(statements)


BACKWARDS: Final = """
DROP TRIGGER review_moved ON orders_criticalresult;
DROP FUNCTION orders_derive_reviews, orders_review_moved, orders_only_added, orders_stamp,
 orders_tally_reviews CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0002_storage")]

    operations = [migrations.RunSQL(forwards(), BACKWARDS)]
