"""Search names on orders by their other spellings, too: written together, without umlauts.

The keys of patients' names are computed again, a few thousand orders at a time. So are those of
recipients who are the patient. The key of another recipient is computed when the order changes.
"""

from django.db import migrations

from patients.names import name_key

WORDS = """
CREATE OR REPLACE FUNCTION order_name_words_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO orders_ordernameword (word, names_id, whose, patient_name)
  SELECT DISTINCT left(word, 64) COLLATE "C", id, whose, patient_name
  FROM fresh, LATERAL (
    SELECT string_to_table(patient_name, ' '),
      CASE WHEN patient_name = recipient_name THEN 3 ELSE 1 END
    UNION ALL
    SELECT string_to_table(recipient_name, ' '), 2 WHERE recipient_name <> patient_name
  ) AS one (word, whose)
  WHERE word <> ''
  ORDER BY 1, id;
  RETURN NULL;
END $$;
"""
AT_ONCE = 2_000


def rebuild_keys(apps, schema_editor):
    orders = apps.get_model("orders", "Order").objects.using(schema_editor.connection.alias)
    columns = ("pk", "patient_first_name", "patient_last_name", "patient_name", "recipient_name")
    named = orders.order_by("pk").only(*columns)
    last = None
    while rows := list((named.filter(pk__gt=last) if last else named)[:AT_ONCE]):
        last, changed = rows[-1].pk, []
        for row in rows:
            key = name_key(row.patient_first_name, row.patient_last_name)
            if key != row.patient_name:
                if row.recipient_name == row.patient_name:
                    row.recipient_name = key
                row.patient_name = key
                changed.append(row)
        orders.bulk_update(changed, ["patient_name", "recipient_name"])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("orders", "0008_a_draft_says_how_far"),
        ("patients", "0006_names_written_together"),
    ]

    operations = [
        migrations.RunSQL(WORDS, migrations.RunSQL.noop),
        migrations.RunPython(rebuild_keys, migrations.RunPython.noop),
    ]
