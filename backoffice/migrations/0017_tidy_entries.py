"""Workers may tidy the indexes of audit entries, which they do not own, and nothing else of them."""

from django.db import migrations

FORWARDS = """
CREATE FUNCTION backoffice_tidy_entries() RETURNS bigint LANGUAGE sql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(sum(gin_clean_pending_list(i.indexrelid)), 0)::bigint FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
WHERE i.indrelid = 'public.backoffice_auditentry'::regclass AND a.amname = 'gin'
$$;
REVOKE EXECUTE ON FUNCTION backoffice_tidy_entries() FROM PUBLIC;
"""


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0016_drift_of_orders")]

    operations = [migrations.RunSQL(FORWARDS, "DROP FUNCTION backoffice_tidy_entries()")]
