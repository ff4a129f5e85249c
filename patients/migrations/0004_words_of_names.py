"""The words of patients' names, by which patients are found. Triggers add and remove the words."""

import django.db.models.deletion
from django.db import migrations, models

# In the order of the key, so that two transactions that add or delete the same words do not
# deadlock.
WORDS = """
CREATE FUNCTION patient_name_words(name_key text) RETURNS SETOF text
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT DISTINCT left(word, 64) COLLATE "C" FROM string_to_table(name_key, ' ') AS word $$;

CREATE FUNCTION patient_name_words_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO patients_patientnameword (word, user_id, name_key)
  SELECT word, user_id, name_key FROM fresh, patient_name_words(name_key) AS word
  ORDER BY 1, 2;
  RETURN NULL;
END $$;
CREATE TRIGGER words_added AFTER INSERT ON patients_demographics
  REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patient_name_words_added();

CREATE FUNCTION patient_name_words_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM patients_patientnameword AS kept
  USING (SELECT user_id, name_key FROM stale EXCEPT SELECT user_id, name_key FROM fresh) AS gone,
    patient_name_words(gone.name_key) AS once (word)
  WHERE kept.word = once.word AND kept.user_id = gone.user_id AND kept.name_key = gone.name_key;
  INSERT INTO patients_patientnameword (word, user_id, name_key)
  SELECT word, user_id, name_key
  FROM (SELECT user_id, name_key FROM fresh EXCEPT SELECT user_id, name_key FROM stale) AS come,
    patient_name_words(name_key) AS word
  ORDER BY 1, 2;
  RETURN NULL;
END $$;
CREATE TRIGGER words_changed AFTER UPDATE ON patients_demographics
  REFERENCING OLD TABLE AS stale NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION patient_name_words_changed();

CREATE FUNCTION patient_name_words_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM patients_patientnameword AS kept
  USING stale AS gone, patient_name_words(gone.name_key) AS once (word)
  WHERE kept.word = once.word AND kept.user_id = gone.user_id AND kept.name_key = gone.name_key;
  RETURN NULL;
END $$;
CREATE TRIGGER words_gone AFTER DELETE ON patients_demographics
  REFERENCING OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION patient_name_words_gone();

INSERT INTO patients_patientnameword (word, user_id, name_key)
SELECT word, user_id, name_key FROM patients_demographics, patient_name_words(name_key) AS word
ORDER BY 1, 2;
"""
WORDS_BACK = """
DROP TRIGGER words_gone ON patients_demographics;
DROP TRIGGER words_changed ON patients_demographics;
DROP TRIGGER words_added ON patients_demographics;
DROP FUNCTION patient_name_words_gone();
DROP FUNCTION patient_name_words_changed();
DROP FUNCTION patient_name_words_added();
DROP FUNCTION patient_name_words(text);
"""


class Migration(migrations.Migration):

    dependencies = [('patients', '0003_a_registration_that_is_being_typed')]

    operations = [
        migrations.CreateModel(
            name='PatientNameWord',
            fields=[
                ('pk', models.CompositePrimaryKey('word', 'user', 'name_key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('word', models.TextField(db_collation='C')),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='patients.patient')),
                ('name_key', models.TextField()),
            ],
        ),
        migrations.RunSQL(WORDS, WORDS_BACK),
        migrations.RemoveIndex('demographics', 'demographics_name_words'),
    ]
