"""Notify open pages of the state of an upload, whatever code changes it.

If more than `changes.MOST` change at once, the pages learn only that there are many.
"""

from django.db import migrations

TOLD = """
CREATE FUNCTION report_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO backoffice_change (xact, topic, rows, subjects)
  SELECT pg_current_xact_id()::text::bigint, 'labs_report', count(*),
    CASE WHEN count(*) <= 200
      THEN array_remove(array_agg(DISTINCT id) || array_agg(DISTINCT user_id), NULL) END
  FROM fresh HAVING count(*) > 0;
  RETURN NULL;
END $$;
CREATE TRIGGER report_told AFTER INSERT ON labs_report REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION report_told();
CREATE TRIGGER report_changed_told AFTER UPDATE ON labs_report REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION report_told();
"""
TOLD_BACK = """
DROP TRIGGER report_changed_told ON labs_report;
DROP TRIGGER report_told ON labs_report;
DROP FUNCTION report_told();
"""


class Migration(migrations.Migration):
    dependencies = [("labs", "0002_storage"), ("backoffice", "0002_kept")]

    operations = [migrations.RunSQL(TOLD, TOLD_BACK)]
