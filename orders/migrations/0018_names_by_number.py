"""Orders know their names by number, and every index that a list is walked along has it; what the
filters of dispatch and of the usual time ask stands there, too."""

from datetime import timedelta

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q
from django.db.models.lookups import GreaterThan

ALONG = [
    *("bucket", "low_level_status", "method", "interpretation", "lab_slug"),
    *("names", "quiet_at", "activate_by"),
]
MOMENTS = ["created_at", "updated_at"]
AGAIN = {
    "order_newest": ["-created_at", "-id"],
    "order_last_updated": ["-updated_at", "-id"],
    "order_by_patient_name": ["patient_name", "id"],
    "order_by_status": ["low_level_status", "created_at", "id"],
    "order_by_bucket": ["bucket", "-updated_at", "-id"],
    "order_by_method": ["method", "-created_at", "-id"],
    "order_rare_interpretation": ["interpretation", "-created_at", "-id"],
    "exception_quiet": ["quiet_at", "id"],
    "order_of_name": ["names", "id"],
}
MADE = {**AGAIN, "order_still_updated": ["created_at", "id"]}

BY_TEXT = """
DROP TRIGGER names_added ON orders_order;
DROP TRIGGER names_changed ON orders_order;
DROP FUNCTION order_names_added();
DROP FUNCTION order_names_changed();
"""
# In the order of the numbers, so that two statements do not wait for each other. Two transactions
# of several statements may: one of them begins anew.
BY_NUMBER = """
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
FILLED = """
ALTER TABLE orders_order DISABLE TRIGGER USER;
UPDATE orders_order SET names_id = order_names_number(patient_name, recipient_name);
ALTER TABLE orders_order ALTER names_id SET NOT NULL;
ALTER TABLE orders_order ENABLE TRIGGER USER;
INSERT INTO orders_ordername (id, patient_name, recipient_name)
SELECT DISTINCT ON (names_id) names_id, patient_name, recipient_name FROM orders_order
ORDER BY names_id;
"""


def walked(name):
    key = MADE[name]
    bare = [column.removeprefix("-") for column in key]
    rest = [column for column in [*MOMENTS, *ALONG] if column not in bare]
    options = {}
    if name == "exception_quiet":
        options["condition"] = Q(quiet_at__isnull=False)
        options["include"] = ["last_event_id", "missing_since"]
    if name == "order_still_updated":
        lasted = models.F("updated_at") - models.F("created_at")
        options["condition"] = Q(GreaterThan(lasted, models.Value(timedelta(days=30))))
    if name == "order_rare_interpretation":
        options["condition"] = Q(interpretation__isnull=False) & ~Q(interpretation="normal")
    return models.Index(fields=[*key, *rest], name=name, **options)


class Migration(migrations.Migration):
    dependencies = [("orders", "0017_moves")]

    operations = [
        *(migrations.RemoveIndex("order", name) for name in (*AGAIN, "order_name_words")),
        migrations.RunSQL(BY_TEXT),
        migrations.DeleteModel("OrderName"),
        migrations.CreateModel(
            name="OrderName",
            fields=[
                (
                    "id",
                    models.BigIntegerField(
                        help_text="Hash of both names", primary_key=True, serialize=False
                    ),
                ),
                ("patient_name", models.TextField()),
                ("recipient_name", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="OrderNameWord",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "word",
                        "names",
                        "whose",
                        "patient_name",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("word", models.TextField(db_collation="C")),
                (
                    "names",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="words",
                        to="orders.ordername",
                    ),
                ),
                (
                    "whose",
                    models.SmallIntegerField(
                        choices=[(1, "the patient's"), (2, "the recipient's"), (3, "both's")]
                    ),
                ),
                ("patient_name", models.TextField()),
            ],
        ),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL("ALTER TABLE orders_order ADD names_id bigint")],
            [
                migrations.AddField(
                    "order",
                    "names",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        editable=False,
                        help_text="Both of them; a trigger sets it",
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="orders",
                        to="orders.ordername",
                    ),
                )
            ],
        ),
        migrations.RunSQL(BY_NUMBER),
        migrations.RunSQL(WORDS),
        migrations.RunSQL(FILLED),
        *(migrations.AddIndex("order", walked(name)) for name in MADE),
    ]
