-- What a review is derived from is added, never changed or deleted. Only the owner of the tables may
-- TRUNCATE them.
CREATE OR REPLACE FUNCTION orders_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON orders_resultversion
 FOR EACH ROW EXECUTE FUNCTION orders_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON orders_signature
 FOR EACH ROW EXECUTE FUNCTION orders_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON orders_criticalacknowledgement
 FOR EACH ROW EXECUTE FUNCTION orders_append_only();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON orders_criticalcall
 FOR EACH ROW EXECUTE FUNCTION orders_append_only();

-- Their time is set here, whatever the writer sends.
CREATE OR REPLACE FUNCTION orders_set_time() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
 NEW.at := clock_timestamp();
 RETURN NEW;
END $$;

CREATE OR REPLACE TRIGGER set_time BEFORE INSERT ON orders_signature
 FOR EACH ROW EXECUTE FUNCTION orders_set_time();
CREATE OR REPLACE TRIGGER set_time BEFORE INSERT ON orders_criticalacknowledgement
 FOR EACH ROW EXECUTE FUNCTION orders_set_time();
CREATE OR REPLACE TRIGGER set_time BEFORE INSERT ON orders_criticalcall
 FOR EACH ROW EXECUTE FUNCTION orders_set_time();
