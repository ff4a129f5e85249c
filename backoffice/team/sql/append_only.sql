-- Notes, contacts and the history of assignments: rows are added, never changed or deleted.

CREATE OR REPLACE FUNCTION team_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'rows of % are added, never changed', TG_TABLE_NAME
    USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON team_note
  FOR EACH ROW EXECUTE FUNCTION team_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON team_contact
  FOR EACH ROW EXECUTE FUNCTION team_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON team_assignmentchange
  FOR EACH ROW EXECUTE FUNCTION team_append_only();
