-- The record as received is kept apart from the promoted columns. PostgreSQL moves a long value out
-- of line only until a row fits `toast_tuple_target`, 2 KB by default. With a lower target, a scan of
-- the promoted columns does not read the records.
ALTER TABLE webhooks_event SET (toast_tuple_target = 256);

-- A queue that empties as fast as it fills. Vacuum depends on the number of changed rows.
ALTER TABLE webhooks_event SET (autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_limit = 2000,
  autovacuum_analyze_scale_factor = 0.02, fillfactor = 85);
