-- What orders know of patients, written into the columns of patients_patient that demographics
-- leave empty (patients/sql/identity.sql): the newest order with a full name gives them. A value
-- that it lacks is taken from an earlier order of the same name, the newest first. Beside a name from
-- demographics only an order of that name counts: under one user there may be several people.

CREATE OR REPLACE FUNCTION orders_identify_patients(users uuid[]) RETURNS void
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  lacking uuid[];
BEGIN
  -- In key order, so that two transactions wait for each other instead of deadlocking.
  lacking := ARRAY(
    SELECT id FROM patients_patient
    WHERE id = ANY(users) AND (fields_from_order <> '{}' OR name_key = '' OR email = ''
      OR phone_digits = '' OR gender = '' OR dob IS NULL)
    ORDER BY id FOR NO KEY UPDATE
  );
  IF lacking = '{}' THEN
    RETURN;
  END IF;
  UPDATE patients_patient AS p SET
    first_name = now.first_name, last_name = now.last_name, name_key = now.name_key,
    email = now.email, phone_number = now.phone_number, phone_digits = now.phone_digits,
    gender = now.gender, dob = now.dob, fields_from_order = now.given,
    source_order_id = CASE WHEN now.given <> '{}' THEN now.order_id END,
    source_order_created_at = CASE WHEN now.given <> '{}' THEN now.created_at END
  FROM (
    SELECT o.id, newest.order_id, newest.created_at,
      CASE WHEN lacks.name THEN coalesce(newest.first_name, '') ELSE o.first_name END
        AS first_name,
      CASE WHEN lacks.name THEN coalesce(newest.last_name, '') ELSE o.last_name END AS last_name,
      CASE WHEN lacks.name THEN coalesce(newest.name_key, '') ELSE o.name_key END AS name_key,
      CASE WHEN lacks.email THEN coalesce(newest.email, '') ELSE o.email END AS email,
      CASE WHEN lacks.phone THEN coalesce(newest.phone, '') ELSE o.phone_number END
        AS phone_number,
      CASE WHEN lacks.phone
        THEN coalesce(reverse(regexp_replace(newest.phone, '[^0-9]', '', 'g')), '')
        ELSE o.phone_digits END AS phone_digits,
      CASE WHEN lacks.gender THEN coalesce(newest.gender, '') ELSE o.gender END AS gender,
      CASE WHEN lacks.dob THEN newest.dob ELSE o.dob END AS dob,
      array_remove(ARRAY[
        CASE WHEN lacks.name AND newest.name_key <> '' THEN 'name' END,
        CASE WHEN lacks.dob AND newest.dob IS NOT NULL THEN 'dob' END,
        CASE WHEN lacks.gender AND newest.gender <> '' THEN 'gender' END,
        CASE WHEN lacks.phone AND newest.phone <> '' THEN 'phone' END,
        CASE WHEN lacks.email AND newest.email <> '' THEN 'email' END
      ], NULL) AS given
    FROM patients_patient AS o
    CROSS JOIN LATERAL (
      SELECT
        o.name_key = '' OR 'name' = ANY(o.fields_from_order) AS name,
        o.dob IS NULL OR 'dob' = ANY(o.fields_from_order) AS dob,
        o.gender = '' OR 'gender' = ANY(o.fields_from_order) AS gender,
        o.phone_digits = '' OR 'phone' = ANY(o.fields_from_order) AS phone,
        o.email = '' OR 'email' = ANY(o.fields_from_order) AS email
    ) AS lacks
    CROSS JOIN LATERAL (
      SELECT
        (array_agg(id ORDER BY created_at DESC, id))[1] AS order_id,
        max(created_at) AS created_at,
        (array_agg(patient_first_name ORDER BY created_at DESC, id))[1] AS first_name,
        (array_agg(patient_last_name ORDER BY created_at DESC, id))[1] AS last_name,
        min(patient_name) AS name_key,
        (array_agg(patient_dob ORDER BY created_at DESC, id)
          FILTER (WHERE patient_dob IS NOT NULL))[1] AS dob,
        (array_agg(patient_gender ORDER BY created_at DESC, id)
          FILTER (WHERE patient_gender <> ''))[1] AS gender,
        (array_agg(patient_phone ORDER BY created_at DESC, id)
          FILTER (WHERE patient_phone <> ''))[1] AS phone,
        (array_agg(patient_email ORDER BY created_at DESC, id)
          FILTER (WHERE patient_email <> ''))[1] AS email
      FROM (
        SELECT *, first_value(patient_name) OVER (ORDER BY created_at DESC, id) AS newest_name
        FROM (
          SELECT id, created_at, patient_first_name, patient_last_name, patient_name, patient_dob,
            patient_gender, patient_phone, patient_email
          FROM (
            -- Nobody has more orders, except a user under whom a team keeps its stock of kits.
            SELECT * FROM orders_order WHERE user_id = o.id ORDER BY created_at DESC LIMIT 500
          ) AS latest
          WHERE patient_first_name <> '' AND patient_last_name <> ''
          ORDER BY created_at DESC, id LIMIT 20
        ) AS named
      ) AS same
      WHERE patient_name = newest_name AND (lacks.name OR patient_name = o.name_key)
    ) AS newest
    WHERE o.id = ANY(lacking)
  ) AS now
  WHERE p.id = now.id AND (
    p.first_name, p.last_name, p.name_key, p.email, p.phone_number, p.phone_digits, p.gender,
    p.dob, p.fields_from_order, p.source_order_id, p.source_order_created_at
  ) IS DISTINCT FROM (
    now.first_name, now.last_name, now.name_key, now.email, now.phone_number, now.phone_digits,
    now.gender, now.dob, now.given, CASE WHEN now.given <> '{}' THEN now.order_id END,
    CASE WHEN now.given <> '{}' THEN now.created_at END
  );
END $$;

-- A new order that only repeats what is on file changes nothing: the source stays the order that
-- gave it first. Most orders are so, and the comparison is cheaper than reading all orders again.
CREATE OR REPLACE FUNCTION orders_identify_by_new_orders() RETURNS trigger
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  users uuid[] := ARRAY(
    SELECT DISTINCT id FROM (
      -- In key order, so that two transactions wait for each other instead of deadlocking. Locked
      -- even if nothing changes: another one may be about to write an older order's details. OFFSET 0
      -- keeps the planner from testing has_news before the lock.
      SELECT p.id, CASE
        WHEN o.patient_name <> p.name_key
          THEN p.name_key = '' OR 'name' = ANY(p.fields_from_order)
        ELSE ('name' = ANY(p.fields_from_order) AND (o.patient_first_name, o.patient_last_name)
            <> (p.first_name, p.last_name))
          OR (o.patient_dob IS NOT NULL AND p.dob IS DISTINCT FROM o.patient_dob)
          OR (o.patient_gender <> '' AND p.gender <> o.patient_gender)
          OR (o.patient_phone <> '' AND p.phone_number <> o.patient_phone)
          OR (o.patient_email <> '' AND p.email <> o.patient_email)
        END AS has_news
      FROM fresh AS o JOIN patients_patient AS p ON p.id = o.user_id
      WHERE o.patient_first_name <> '' AND o.patient_last_name <> ''
        AND (p.fields_from_order <> '{}' OR p.name_key = '' OR p.email = ''
          OR p.phone_digits = '' OR p.gender = '' OR p.dob IS NULL)
      ORDER BY p.id OFFSET 0 FOR NO KEY UPDATE OF p
    ) AS identified
    WHERE has_news
  );
BEGIN
  IF users <> '{}' THEN
    PERFORM orders_identify_patients(users);
  END IF;
  RETURN NULL;
END $$;

-- The patient an order belonged to before counts as well: the order no longer identifies them.
CREATE OR REPLACE FUNCTION orders_identify_by_changed_orders() RETURNS trigger
  LANGUAGE plpgsql AS $$
DECLARE
  users uuid[] := ARRAY(
    WITH before AS (
      SELECT id, user_id, created_at, patient_first_name, patient_last_name, patient_name,
        patient_dob, patient_gender, patient_phone, patient_email FROM stale
    ), after AS (
      SELECT id, user_id, created_at, patient_first_name, patient_last_name, patient_name,
        patient_dob, patient_gender, patient_phone, patient_email FROM fresh
    )
    SELECT DISTINCT user_id FROM (
      (TABLE before EXCEPT TABLE after) UNION ALL (TABLE after EXCEPT TABLE before)
    ) AS changed
    WHERE user_id IS NOT NULL
  );
BEGIN
  IF users <> '{}' THEN
    PERFORM orders_identify_patients(users);
  END IF;
  RETURN NULL;
END $$;

-- A patient whose orders came first.
CREATE OR REPLACE FUNCTION orders_identify_added_patients() RETURNS trigger
  LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
  users uuid[] := ARRAY(
    SELECT id FROM fresh
    WHERE EXISTS (SELECT FROM orders_order WHERE orders_order.user_id = fresh.id)
  );
BEGIN
  IF users <> '{}' THEN
    PERFORM orders_identify_patients(users);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER patients_of_new_orders AFTER INSERT ON orders_order
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_identify_by_new_orders();
CREATE OR REPLACE TRIGGER patients_of_changed_orders AFTER UPDATE ON orders_order
  REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_identify_by_changed_orders();
-- The name sorts behind that of the trigger that reads demographics: triggers fire in this order.
CREATE OR REPLACE TRIGGER orders_of_new_patients AFTER INSERT ON patients_patient
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_identify_added_patients();
