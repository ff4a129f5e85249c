-- Lets workers clean up the indexes of audit entries, which they do not own, and nothing else.

CREATE OR REPLACE FUNCTION audit_clean_entry_indexes() RETURNS bigint LANGUAGE sql
  SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(sum(gin_clean_pending_list(i.indexrelid)), 0)::bigint FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
WHERE i.indrelid = 'public.audit_auditentry'::regclass AND a.amname = 'gin'
$$;
REVOKE EXECUTE ON FUNCTION audit_clean_entry_indexes() FROM PUBLIC;
