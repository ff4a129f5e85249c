-- The names on orders (orders_ordername: the patient's and the recipient's, once per pair) and their
-- words (orders_ordernameword), by which orders are found.

-- Names are added in the order of their ids, so that two transactions that add the same names do not
-- deadlock. An upsert adds names twice: those of new rows, then those of changed rows. So two upserts
-- can deadlock, and one of them is then tried again.
CREATE OR REPLACE FUNCTION orders_add_names_of_new_orders() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordername (id, patient_name, recipient_name)
  SELECT DISTINCT ON (names_id) names_id, patient_name, recipient_name FROM fresh
  ORDER BY names_id
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER names_of_new_orders AFTER INSERT ON orders_order
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_add_names_of_new_orders();

CREATE OR REPLACE FUNCTION orders_add_names_of_changed_orders() RETURNS trigger
  LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordername (id, patient_name, recipient_name)
  SELECT names_id, patient_name, recipient_name FROM fresh
  EXCEPT
  SELECT names_id, patient_name, recipient_name FROM stale
  ORDER BY names_id
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER names_of_changed_orders AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION orders_add_names_of_changed_orders();

-- `person_role` of a word: 1 in the patient's name, 2 in the recipient's, 3 if both have the same name.
CREATE OR REPLACE FUNCTION orders_add_name_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordernameword (word, names_id, person_role, patient_name)
  SELECT DISTINCT left(word, 64) COLLATE "C", id, person_role, patient_name
  FROM fresh, LATERAL (
    SELECT string_to_table(patient_name, ' '),
      CASE WHEN patient_name = recipient_name THEN 3 ELSE 1 END
    UNION ALL
    SELECT string_to_table(recipient_name, ' '), 2 WHERE recipient_name <> patient_name
  ) AS name_word (word, person_role)
  WHERE word <> ''
  ORDER BY 1, id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER name_words AFTER INSERT ON orders_ordername
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION orders_add_name_words();
