-- Triggers that keep the words of each patient's name (patients_patientnameword) up to date.
-- Rows are inserted in key order, so that two transactions with the same words do not deadlock.

CREATE OR REPLACE FUNCTION patients_name_words(name_key text) RETURNS SETOF text
  LANGUAGE sql IMMUTABLE
  AS $$
    -- Two spaces separate the other spellings: between them is an empty word.
    SELECT DISTINCT left(word, 64) COLLATE "C" FROM string_to_table(name_key, ' ') AS word
    WHERE word <> ''
  $$;

CREATE OR REPLACE FUNCTION patients_name_words_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO patients_patientnameword (word, user_id, name_key)
  SELECT word, id, name_key FROM fresh, patients_name_words(name_key) AS word
  ORDER BY 1, 2
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

-- The settings make PostgreSQL find the words to remove by their keys, also with a plan that was made
-- while the table was empty.
CREATE OR REPLACE FUNCTION patients_name_words_changed() RETURNS trigger
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  IF EXISTS (SELECT FROM stale WHERE name_key <> '') THEN
    DELETE FROM patients_patientnameword AS known
    USING (SELECT id, name_key FROM stale EXCEPT SELECT id, name_key FROM fresh) AS gone,
      patients_name_words(gone.name_key) AS once (word)
    WHERE known.word = once.word AND known.user_id = gone.id AND known.name_key = gone.name_key;
  END IF;
  INSERT INTO patients_patientnameword (word, user_id, name_key)
  SELECT word, id, name_key
  FROM (SELECT id, name_key FROM fresh EXCEPT SELECT id, name_key FROM stale) AS come,
    patients_name_words(name_key) AS word
  ORDER BY 1, 2
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION patients_name_words_deleted() RETURNS trigger
  LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  DELETE FROM patients_patientnameword AS known
  USING stale AS gone, patients_name_words(gone.name_key) AS once (word)
  WHERE known.word = once.word AND known.user_id = gone.id AND known.name_key = gone.name_key;
  RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER words_added AFTER INSERT ON patients_patient
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_name_words_added();
CREATE OR REPLACE TRIGGER words_changed AFTER UPDATE ON patients_patient
  REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patients_name_words_changed();
CREATE OR REPLACE TRIGGER words_deleted AFTER DELETE ON patients_patient
  REFERENCING OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION patients_name_words_deleted();
