-- The activity of orders (orders_orderactivity): steps and moves of orders, visits, results, critical
-- results. Each trigger runs once per statement, in the transaction of the change, whatever code makes
-- the change.
--
-- PostgreSQL caches the plans of a function. The first call may have one row, and the cached nested
-- loop would then also run for thousands of rows. So nested loops are disabled where rows are joined.

-- A new order counts as activity only if it had an event in the last days: the first sync brings
-- years of orders.
CREATE OR REPLACE FUNCTION orders_activity_of_new_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_orderactivity
    (transaction, kind, order_id, patient_id, after, bucket_after)
  SELECT pg_current_xact_id()::text::bigint, kind, id, user_id, low_level_status, bucket
  FROM fresh
  CROSS JOIN LATERAL unnest(
    CASE WHEN interpretation = 'critical' THEN ARRAY['order', 'critical'] ELSE ARRAY['order'] END
  ) AS kind
  WHERE last_event_at > now() - interval '3 days';
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER activity_of_new_orders AFTER INSERT ON orders_order REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_activity_of_new_orders();

-- `orders.status_groups` moves orders between groups with `backoffice.no_activity` on: that is no
-- activity.
CREATE OR REPLACE FUNCTION orders_activity_of_changed_orders() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  IF current_setting('backoffice.no_activity', true) = 'on' THEN RETURN NULL; END IF;
  INSERT INTO orders_orderactivity (transaction, kind, order_id, patient_id, before, after,
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
CREATE OR REPLACE TRIGGER activity_of_changed_orders AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION orders_activity_of_changed_orders();

-- A visit that replaces another one is a new row, while the other one is still active.
CREATE OR REPLACE FUNCTION orders_activity_of_new_visits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_orderactivity
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
CREATE OR REPLACE TRIGGER activity_of_new_visits AFTER INSERT ON orders_appointment
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_activity_of_new_visits();

CREATE OR REPLACE FUNCTION orders_activity_of_changed_visits() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO orders_orderactivity
    (transaction, kind, order_id, patient_id, before, after, start_before, start_after)
  SELECT pg_current_xact_id()::text::bigint, 'visit', fresh.order_id, fresh.user_id,
    stale.status, fresh.status, stale.start_at, fresh.start_at
  FROM fresh JOIN stale USING (id)
  WHERE (fresh.status, fresh.start_at) IS DISTINCT FROM (stale.status, stale.start_at);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER activity_of_changed_visits AFTER UPDATE ON orders_appointment
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION orders_activity_of_changed_visits();

CREATE OR REPLACE FUNCTION orders_activity_of_changed_results() RETURNS trigger LANGUAGE plpgsql
  SET enable_nestloop = off AS $$
BEGIN
  INSERT INTO orders_orderactivity (transaction, kind, order_id, patient_id, before, after)
  SELECT pg_current_xact_id()::text::bigint, 'result', fresh.order_id, ordered.user_id,
    stale.status, fresh.status
  FROM fresh JOIN stale USING (order_id) LEFT JOIN orders_order AS ordered
    ON ordered.id = fresh.order_id
  WHERE fresh.status <> stale.status;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER activity_of_changed_results AFTER UPDATE ON orders_result
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION orders_activity_of_changed_results();

CREATE OR REPLACE FUNCTION orders_activity_of_critical_results() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_orderactivity (transaction, kind, order_id, patient_id, after)
  SELECT pg_current_xact_id()::text::bigint, 'critical', order_id, user_id, status FROM fresh;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER activity_of_critical_results AFTER INSERT ON orders_criticalannouncement
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_activity_of_critical_results();
