"""Orders know their names by number, names their words: triggers add what an order brings."""

from django.db import migrations

# In the order of the numbers, so that two statements do not wait for each other. Two transactions
# of several statements may: one of them begins anew.
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
# A word that both names have is one row: its numbers add up.
WORDS = """
CREATE FUNCTION order_name_words_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordernameword (word, names_id, whose, patient_name)
  SELECT left(lexeme, 64), id, sum(DISTINCT one_of), patient_name
  FROM fresh, LATERAL (
    SELECT unnest(tsvector_to_array(to_tsvector('simple', patient_name))), 1
    UNION ALL
    SELECT unnest(tsvector_to_array(to_tsvector('simple', recipient_name))), 2
  ) AS told (lexeme, one_of)
  GROUP BY 1, id, patient_name ORDER BY 1, id;
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
