-- Orders that move to another patient, or back to an earlier status. The triggers record it in the
-- transaction of the change, whatever code makes the change.

-- A move ends every snooze of the order. The review gets the new patient at once, not with the next
-- version of its result. A kit that had no named patient before does not count as moved.
CREATE OR REPLACE FUNCTION orders_order_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_orderpatientchange (order_id, before, after) VALUES (NEW.id, OLD.user_id, NEW.user_id);
  UPDATE orders_handling SET until = now()
  WHERE order_id = NEW.id AND (until IS NULL OR until > now());
  UPDATE orders_review SET user_id = NEW.user_id WHERE order_id = NEW.id;
  INSERT INTO orders_orderactivity (transaction, kind, order_id, patient_id)
  VALUES (pg_current_xact_id()::text::bigint, 'moved', NEW.id, NEW.user_id);
  INSERT INTO mirror_drift (resource, key, kind, detail)
  VALUES (TG_TABLE_NAME, NEW.id, 'moved', '');
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER order_moved AFTER UPDATE OF user_id ON orders_order FOR EACH ROW
  WHEN (OLD.user_id <> NEW.user_id AND (OLD.patient_name <> '' OR OLD.patient_dob IS NOT NULL))
  EXECUTE FUNCTION orders_order_moved();

CREATE OR REPLACE FUNCTION orders_status_regressed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO mirror_drift (resource, key, kind, detail)
  VALUES (TG_TABLE_NAME, NEW.id, 'regressed',
    'from ' || OLD.low_level_status || ' to ' || NEW.low_level_status);
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER status_regressed AFTER UPDATE OF bucket ON orders_order FOR EACH ROW
  WHEN (OLD.low_level_status <> NEW.low_level_status AND OLD.bucket IN ('result-in', 'closed')
    AND NEW.bucket IN ('preparing', 'with-patient', 'on-the-way', 'at-lab'))
  EXECUTE FUNCTION orders_status_regressed();
