-- The record as received is kept apart from the promoted columns. PostgreSQL moves a long value out
-- of line only until a row fits `toast_tuple_target`, 2 KB by default. With a lower target, a scan of
-- the promoted columns does not read the records.
ALTER TABLE orders_order SET (toast_tuple_target = 256);
ALTER TABLE orders_appointment SET (toast_tuple_target = 256);
ALTER TABLE orders_result SET (toast_tuple_target = 256);

-- A sync adds and removes thousands of these rows, and few of them exist at the same time.
ALTER TABLE orders_ordercount
  SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- These columns depend on each other. The planner needs their common values to estimate filters.
CREATE STATISTICS IF NOT EXISTS order_kinds (mcv, dependencies)
  ON bucket, low_level_status, method, interpretation FROM orders_order;
ALTER STATISTICS order_kinds SET STATISTICS 200;
