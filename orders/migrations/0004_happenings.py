"""Counts of orders and the activity of orders, written by triggers.

A trigger runs once per statement, in the transaction of the change, whatever code makes the change.
"""

from django.db import migrations

# PostgreSQL caches the plans of a function. The first call may have one row, and the cached nested
# loop would then also run for thousands of rows. So nested loops are disabled.
#
# A new order counts as activity only if it had an event in the last days: the first sync brings
# years of orders. When `orders.status_groups` moves orders, only the counts change.
ORDERS = """
CREATE FUNCTION today_orders_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, count(*) FROM fresh GROUP BY 1, 2, 3;
  INSERT INTO today_happening
    (transaction, kind, order_id, patient_id, after, bucket_after)
  SELECT pg_current_xact_id()::text::bigint, kind, id, user_id, low_level_status, bucket
  FROM fresh
  CROSS JOIN LATERAL unnest(
    CASE WHEN interpretation = 'critical' THEN ARRAY['order', 'critical'] ELSE ARRAY['order'] END
  ) AS kind
  WHERE last_event_at > now() - interval '3 days';
  RETURN NULL;
END $$;

CREATE FUNCTION today_orders_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, sum(change) FROM (
    SELECT bucket, low_level_status, method, 1 AS change FROM fresh
    UNION ALL
    SELECT bucket, low_level_status, method, -1 FROM stale
  ) AS moved
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  IF current_setting('backoffice.no_news', true) = 'on' THEN RETURN NULL; END IF;
  INSERT INTO today_happening (transaction, kind, order_id, patient_id, before, after,
    bucket_before, bucket_after)
  SELECT pg_current_xact_id()::text::bigint, kind, fresh.id, fresh.user_id,
    stale.low_level_status, fresh.low_level_status, stale.bucket, fresh.bucket
  FROM fresh JOIN stale USING (id)
  CROSS JOIN LATERAL unnest(
    CASE WHEN (fresh.bucket, fresh.low_level_status) <> (stale.bucket, stale.low_level_status)
      THEN ARRAY['order'] ELSE '{}' END
    || CASE WHEN fresh.interpretation = 'critical'
        AND stale.interpretation IS DISTINCT FROM 'critical'
      THEN ARRAY['critical'] ELSE '{}' END
  ) AS kind;
  RETURN NULL;
END $$;

CREATE FUNCTION today_orders_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, -count(*) FROM stale GROUP BY 1, 2, 3;
  RETURN NULL;
END $$;

CREATE FUNCTION today_orders_emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_ordercount (bucket, low_level_status, method, change)
  SELECT bucket, low_level_status, method, -sum(change) FROM today_ordercount
  GROUP BY 1, 2, 3 HAVING sum(change) <> 0;
  RETURN NULL;
END $$;

CREATE TRIGGER today_added AFTER INSERT ON orders_order REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_added();
CREATE TRIGGER today_changed AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_changed();
CREATE TRIGGER today_removed AFTER DELETE ON orders_order REFERENCING OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_removed();
CREATE TRIGGER today_emptied AFTER TRUNCATE ON orders_order
  FOR EACH STATEMENT EXECUTE FUNCTION today_orders_emptied();
"""
ORDERS_BACK = """
DROP TRIGGER today_added ON orders_order;
DROP TRIGGER today_changed ON orders_order;
DROP TRIGGER today_removed ON orders_order;
DROP TRIGGER today_emptied ON orders_order;
DROP FUNCTION today_orders_added();
DROP FUNCTION today_orders_changed();
DROP FUNCTION today_orders_removed();
DROP FUNCTION today_orders_emptied();
"""

# A visit that replaces another one is a new row, while the other one is still active.
OTHERS = """
CREATE FUNCTION today_visits_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_happening
    (transaction, kind, order_id, patient_id, before, after, start_before, start_after)
  SELECT pg_current_xact_id()::text::bigint, 'visit', fresh.order_id, fresh.user_id,
    coalesce(earlier.status, ''), fresh.status, earlier.start_at, fresh.start_at
  FROM fresh LEFT JOIN LATERAL (
    SELECT status, start_at FROM orders_appointment AS other
    WHERE other.order_id = fresh.order_id AND other.id <> fresh.id
      AND other.superseded_at IS NULL
    ORDER BY other.as_of DESC LIMIT 1
  ) AS earlier ON true
  WHERE fresh.start_at > now() - interval '1 day'
    OR (fresh.start_at IS NULL AND fresh.status NOT IN ('completed', 'cancelled'));
  RETURN NULL;
END $$;

CREATE FUNCTION today_visits_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_happening
    (transaction, kind, order_id, patient_id, before, after, start_before, start_after)
  SELECT pg_current_xact_id()::text::bigint, 'visit', fresh.order_id, fresh.user_id,
    stale.status, fresh.status, stale.start_at, fresh.start_at
  FROM fresh JOIN stale USING (id)
  WHERE (fresh.status, fresh.start_at) IS DISTINCT FROM (stale.status, stale.start_at);
  RETURN NULL;
END $$;

CREATE FUNCTION today_results_changed() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO today_happening (transaction, kind, order_id, patient_id, before, after)
  SELECT pg_current_xact_id()::text::bigint, 'result', fresh.order_id, ordered.user_id,
    stale.status, fresh.status
  FROM fresh JOIN stale USING (order_id) LEFT JOIN orders_order AS ordered
    ON ordered.id = fresh.order_id
  WHERE fresh.status <> stale.status;
  RETURN NULL;
END $$;

CREATE FUNCTION today_critical_heard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO today_happening (transaction, kind, order_id, patient_id, after)
  SELECT pg_current_xact_id()::text::bigint, 'critical', order_id, user_id, status FROM fresh;
  RETURN NULL;
END $$;

CREATE TRIGGER today_added AFTER INSERT ON orders_appointment REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION today_visits_added();
CREATE TRIGGER today_changed AFTER UPDATE ON orders_appointment
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_visits_changed();
CREATE TRIGGER today_changed AFTER UPDATE ON orders_result
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION today_results_changed();
CREATE TRIGGER today_added AFTER INSERT ON orders_criticalresult REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION today_critical_heard();
"""
OTHERS_BACK = """
DROP TRIGGER today_added ON orders_appointment;
DROP TRIGGER today_changed ON orders_appointment;
DROP TRIGGER today_changed ON orders_result;
DROP TRIGGER today_added ON orders_criticalresult;
DROP FUNCTION today_visits_added();
DROP FUNCTION today_visits_changed();
DROP FUNCTION today_results_changed();
DROP FUNCTION today_critical_heard();
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0003_reviews")]

    operations = [
        migrations.RunSQL(ORDERS, ORDERS_BACK),
        migrations.RunSQL(OTHERS, OTHERS_BACK),
    ]
