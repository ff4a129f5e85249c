-- The identity of each patient in columns of patients_patient, so that searches and sorts read one
-- table: name, birth date, sex, phone and email from demographics. Values that demographics lack may
-- come from an order: the orders app writes them into the same columns and lists them in
-- fields_from_order. They are cleared when demographics give another name, because the order may
-- then belong to somebody else.

-- A connection plans these functions once, perhaps while the tables are empty. With sequential scans
-- off, the plans stay good when the tables grow.

-- Set the columns of these patients from their demographics.
CREATE OR REPLACE FUNCTION patients_identify(users uuid[]) RETURNS void
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  -- In key order, so that two transactions wait for each other instead of deadlocking.
  PERFORM 1 FROM patients_patient WHERE id = ANY(users) ORDER BY id FOR NO KEY UPDATE;
  UPDATE patients_patient AS p SET
    first_name = now.first_name, last_name = now.last_name, name_key = now.name_key,
    email = now.email, phone_number = now.phone_number, phone_digits = now.phone_digits,
    gender = now.gender, dob = now.dob, city = now.city, state = now.state, zip = now.zip,
    fields_from_order = rest,
    source_order_id = CASE WHEN rest <> '{}' THEN p.source_order_id END,
    source_order_created_at = CASE WHEN rest <> '{}' THEN p.source_order_created_at END
  FROM (
    SELECT d.user_id, rest, d.city, d.state, d.zip,
      CASE WHEN 'name' = ANY(rest) THEN o.first_name ELSE d.first_name END AS first_name,
      CASE WHEN 'name' = ANY(rest) THEN o.last_name ELSE d.last_name END AS last_name,
      CASE WHEN 'name' = ANY(rest) THEN o.name_key ELSE d.name_key END AS name_key,
      CASE WHEN 'email' = ANY(rest) THEN o.email ELSE d.email END AS email,
      CASE WHEN 'phone' = ANY(rest) THEN o.phone_number ELSE d.phone_number END AS phone_number,
      CASE WHEN 'phone' = ANY(rest) THEN o.phone_digits ELSE d.phone_digits END AS phone_digits,
      CASE WHEN 'gender' = ANY(rest) THEN o.gender ELSE d.gender END AS gender,
      CASE WHEN 'dob' = ANY(rest) THEN o.dob ELSE d.dob END AS dob
    FROM patients_patient AS o
    JOIN patients_demographics AS d ON d.user_id = o.id
    CROSS JOIN LATERAL (
      SELECT ARRAY(
        SELECT field FROM unnest(o.fields_from_order) AS field
        WHERE d.name_key IN ('', o.name_key) AND CASE field
          WHEN 'name' THEN d.name_key = '' WHEN 'email' THEN d.email = ''
          WHEN 'phone' THEN d.phone_digits = '' WHEN 'gender' THEN d.gender = ''
          ELSE d.dob IS NULL END
      ) AS rest
      OFFSET 0  -- Computed once.
    ) AS kept
    WHERE o.id = ANY(users)
  ) AS now
  WHERE p.id = now.user_id AND (
    p.first_name, p.last_name, p.name_key, p.email, p.phone_number, p.phone_digits, p.gender,
    p.dob, p.city, p.state, p.zip, p.fields_from_order
  ) IS DISTINCT FROM (
    now.first_name, now.last_name, now.name_key, now.email, now.phone_number, now.phone_digits,
    now.gender, now.dob, now.city, now.state, now.zip, rest
  );
END $$;

CREATE OR REPLACE FUNCTION patients_identify_by_demographics() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  PERFORM patients_identify(ARRAY(SELECT user_id FROM fresh));
  RETURN NULL;
END $$;

-- A patient was added after their demographics.
CREATE OR REPLACE FUNCTION patients_identify_added() RETURNS trigger
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  users uuid[] := ARRAY(SELECT id FROM fresh JOIN patients_demographics ON user_id = id);
BEGIN
  IF users <> '{}' THEN
    PERFORM patients_identify(users);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER identity_added AFTER INSERT ON patients_demographics
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_identify_by_demographics();
CREATE OR REPLACE TRIGGER identity_changed AFTER UPDATE ON patients_demographics
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_identify_by_demographics();
CREATE OR REPLACE TRIGGER identity_of_new_patients AFTER INSERT ON patients_patient
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_identify_added();
