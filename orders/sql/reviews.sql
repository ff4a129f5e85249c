-- The state of each review (orders_review): its place in the queue, and what was signed, acknowledged
-- and called about. Ranks are positions in `orders.models.review.RANKS`.
--
-- A new version, signature, acknowledgement, call or critical event derives the review again from all
-- of them. The function first locks the review and reads in the next statement, which sees everything
-- committed before it. So the second of two writers reads what the first one has written.

CREATE OR REPLACE FUNCTION orders_derive_reviews(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
 INSERT INTO orders_review (order_id, version, kind, rank, signed, seen, acknowledged, called)
 SELECT DISTINCT id, -1, '', 0, -1, -1, -1, -1 FROM unnest(ids) AS id ORDER BY id
 ON CONFLICT DO NOTHING;
 PERFORM FROM orders_review WHERE order_id = ANY(ids) ORDER BY order_id FOR UPDATE;
 UPDATE orders_review AS review SET
  user_id = coalesce(o.user_id, c.user_id),
  lab_slug = o.lab_slug,
  version = coalesce(v.number, CASE WHEN c.order_id IS NULL THEN -1 ELSE 0 END),
  kind = coalesce(v.kind, ''),
  since = coalesce(v.received_at, c.first_heard_at, review.since),
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
   WHEN v.interpretation IN ('abnormal', 'unknown') THEN 1
   WHEN v.kind NOT IN ('partial', 'final', 'corrected') THEN 1
   -- A result that names someone else never ranks below abnormal ones.
   WHEN review.identity = 'different' THEN 1
   WHEN v.interpretation IS NULL AND v.kind <> 'partial' THEN 1
   WHEN v.kind = 'corrected' THEN 2
   WHEN v.kind = 'partial' THEN 5
   WHEN v.interpretation = 'normal' THEN 4
   ELSE 1 END,
  interpretation = coalesce(v.interpretation, ''),
  has_uninterpreted = coalesce(
   v.has_uninterpreted OR (v.interpretation IS NULL AND v.kind <> 'partial'), false)
 FROM unnest(ids) AS wanted(id)
 LEFT JOIN orders_order o ON o.id = wanted.id
 LEFT JOIN orders_criticalannouncement c ON c.order_id = wanted.id
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
  -- An announcement that no version has confirmed stays open until staff have dealt with it.
  SELECT CASE WHEN v.critical_since IS NOT NULL THEN v.critical_since
   WHEN c.order_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM orders_resultversion e
    WHERE e.order_id = wanted.id AND e.critical_since IS NOT NULL
   ) THEN 0 END AS since
 ) critical
 WHERE review.order_id = wanted.id;
END $$;

CREATE OR REPLACE FUNCTION orders_review_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE ids uuid[];
BEGIN
 SELECT array_agg(DISTINCT order_id) INTO ids FROM fresh;
 IF ids IS NOT NULL THEN PERFORM orders_derive_reviews(ids); END IF;
 RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER review_changed AFTER INSERT ON orders_resultversion
 REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION orders_review_changed();
CREATE OR REPLACE TRIGGER review_changed AFTER INSERT ON orders_signature
 REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION orders_review_changed();
CREATE OR REPLACE TRIGGER review_changed AFTER INSERT ON orders_criticalacknowledgement
 REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION orders_review_changed();
CREATE OR REPLACE TRIGGER review_changed AFTER INSERT ON orders_criticalcall
 REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION orders_review_changed();
CREATE OR REPLACE TRIGGER review_changed AFTER INSERT ON orders_criticalannouncement
 REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION orders_review_changed();
