"""Names of orders, each with a number, and the words of names. Triggers add those of each order."""

from django.db import migrations

# Names are added in the order of their numbers, so that two transactions that add the same names do
# not deadlock. An upsert adds names twice: those of new rows, then those of changed rows. So two
# upserts can deadlock, and one of them is then tried again.
NAMES = """
CREATE FUNCTION order_names_number(patient text, recipient text) RETURNS bigint
  LANGUAGE sql IMMUTABLE
  RETURN hashtextextended(patient || E'\\n' || recipient, 0);

CREATE FUNCTION order_names_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.names_id := order_names_number(NEW.patient_name, NEW.recipient_name);
  RETURN NEW;
END $$;
CREATE TRIGGER names_told BEFORE INSERT OR UPDATE OF patient_name, recipient_name, names_id
  ON orders_order FOR EACH ROW EXECUTE FUNCTION order_names_told();

CREATE FUNCTION order_names_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordername (id, patient_name, recipient_name)
  SELECT DISTINCT ON (names_id) names_id, patient_name, recipient_name FROM fresh
  ORDER BY names_id
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER names_added AFTER INSERT ON orders_order REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION order_names_added();

CREATE FUNCTION order_names_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordername (id, patient_name, recipient_name)
  SELECT names_id, patient_name, recipient_name FROM fresh
  EXCEPT
  SELECT names_id, patient_name, recipient_name FROM stale
  ORDER BY names_id
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER names_changed AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION order_names_changed();
"""
NAMES_BACK = """
DROP TRIGGER names_changed ON orders_order;
DROP TRIGGER names_added ON orders_order;
DROP TRIGGER names_told ON orders_order;
DROP FUNCTION order_names_changed();
DROP FUNCTION order_names_added();
DROP FUNCTION order_names_told();
DROP FUNCTION order_names_number(text, text);
"""
# `whose` of a word: 1 in the patient's name, 2 in the recipient's, 3 if both have the same name.
WORDS = """
CREATE FUNCTION order_name_words_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordernameword (word, names_id, whose, patient_name)
  SELECT DISTINCT left(word, 64) COLLATE "C", id, whose, patient_name
  FROM fresh, LATERAL (
    SELECT string_to_table(patient_name, ' '),
      CASE WHEN patient_name = recipient_name THEN 3 ELSE 1 END
    UNION ALL
    SELECT string_to_table(recipient_name, ' '), 2 WHERE recipient_name <> patient_name
  ) AS told (word, whose)
  ORDER BY 1, id;
  RETURN NULL;
END $$;
CREATE TRIGGER words_added AFTER INSERT ON orders_ordername REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION order_name_words_added();
"""
WORDS_BACK = """
DROP TRIGGER words_added ON orders_ordername;
DROP FUNCTION order_name_words_added();
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0005_moves")]

    operations = [migrations.RunSQL(NAMES, NAMES_BACK), migrations.RunSQL(WORDS, WORDS_BACK)]
