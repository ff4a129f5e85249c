-- Tell open pages that an upload of a report changed, whatever code changed it. If more than
-- `backoffice.core.live_changes.MAX_NAMED_ROWS` change at once, pages learn only that there are many.

CREATE OR REPLACE FUNCTION labs_report_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO core_change (xact, topic, rows, subjects)
  SELECT pg_current_xact_id()::text::bigint, 'labs_report', count(*),
    CASE WHEN count(*) <= 200
      THEN array_remove(array_agg(DISTINCT id) || array_agg(DISTINCT user_id), NULL) END
  FROM fresh HAVING count(*) > 0;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER report_added AFTER INSERT ON labs_report
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION labs_report_changed();
CREATE OR REPLACE TRIGGER report_changed AFTER UPDATE ON labs_report
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION labs_report_changed();
