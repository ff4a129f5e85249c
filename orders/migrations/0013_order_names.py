from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.db import migrations, models
from django.db.models import F


class NamesOf(models.Func):
    arity = 2
    arg_joiner = " || ' ' || "
    template = "left(%(expressions)s, 600)"
    output_field = models.TextField()


# In the order of the names, so that two statements do not wait for each other. Two transactions
# of several statements may: one of them begins anew.
#
# Cut to what an index holds whatever the letters.
KEPT = """
CREATE FUNCTION order_names_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordername (name)
  SELECT DISTINCT left(patient_name || ' ' || recipient_name, 600) AS name FROM fresh ORDER BY name
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE FUNCTION order_names_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordername (name)
  SELECT left(patient_name || ' ' || recipient_name, 600) AS name FROM fresh
  EXCEPT
  SELECT left(patient_name || ' ' || recipient_name, 600) FROM stale
  ORDER BY name
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE TRIGGER names_added AFTER INSERT ON orders_order REFERENCING NEW TABLE AS fresh
  FOR EACH STATEMENT EXECUTE FUNCTION order_names_added();
CREATE TRIGGER names_changed AFTER UPDATE ON orders_order
  REFERENCING NEW TABLE AS fresh OLD TABLE AS stale
  FOR EACH STATEMENT EXECUTE FUNCTION order_names_changed();

INSERT INTO orders_ordername (name)
SELECT DISTINCT left(patient_name || ' ' || recipient_name, 600) FROM orders_order;
"""
NO_LONGER = """
DROP TRIGGER names_added ON orders_order;
DROP TRIGGER names_changed ON orders_order;
DROP FUNCTION order_names_added();
DROP FUNCTION order_names_changed();
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0012_unread_indexes")]

    operations = [
        migrations.CreateModel(
            name="OrderName",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField()),
            ],
        ),
        migrations.AddConstraint(
            "ordername", models.UniqueConstraint(fields=["name"], name="order_name_once")
        ),
        migrations.RunSQL(KEPT, NO_LONGER),
        migrations.AddIndex(
            "ordername",
            GinIndex(SearchVector("name", config="simple"), name="order_name_beginnings"),
        ),
        migrations.AddIndex(
            "order",
            models.Index(
                NamesOf(F("patient_name"), F("recipient_name")),
                name="order_of_name",
            ),
        ),
    ]
