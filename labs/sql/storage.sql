-- The record as received is kept apart from the promoted columns. PostgreSQL moves a long value out
-- of line only until a row fits `toast_tuple_target`, 2 KB by default. With a lower target, a scan of
-- the promoted columns does not read the records.
ALTER TABLE labs_marker SET (toast_tuple_target = 256);
ALTER TABLE labs_labtest SET (toast_tuple_target = 256);
ALTER TABLE labs_reportjob SET (toast_tuple_target = 256);
