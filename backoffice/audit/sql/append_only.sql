-- The audit trail and its seals: rows are added, never changed.
--
-- Entries that are old and sealed can be deleted, by a transaction that says how many years it keeps
-- (audit/retention.py). The owner of the tables can drop these triggers. The seals show what was
-- changed or deleted then.

CREATE OR REPLACE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  years int := nullif(current_setting('backoffice.audit_keep_years', true), '')::int;
BEGIN
  IF TG_TABLE_NAME = 'audit_auditentry' AND TG_OP = 'DELETE' AND years >= 1 THEN
    -- Of the seals that end behind the entry, the first is the one that covers it.
    IF OLD.at < now() - make_interval(years => years) AND (
      SELECT from_id <= OLD.id AND at < now() - make_interval(years => years)
      FROM audit_auditseal WHERE NOT removal AND to_id >= OLD.id ORDER BY to_id LIMIT 1
    ) THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME
    USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_auditentry
  FOR EACH ROW EXECUTE FUNCTION audit_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_auditseal
  FOR EACH ROW EXECUTE FUNCTION audit_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_auditreview
  FOR EACH ROW EXECUTE FUNCTION audit_append_only();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON audit_auditentry
  FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON audit_auditseal
  FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE OR REPLACE TRIGGER no_truncate BEFORE TRUNCATE ON audit_auditreview
  FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
