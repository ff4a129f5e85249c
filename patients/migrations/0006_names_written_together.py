"""Search names by their other spellings, too: written together, and without umlauts.

The keys of stored names are computed again, a few thousand at a time. A name whose words have no
other spelling does not change and is not written.
"""

from django.db import migrations

from patients.names import name_key

WORDS = """
CREATE OR REPLACE FUNCTION patient_name_words(name_key text) RETURNS SETOF text
  LANGUAGE sql IMMUTABLE
  AS $$ SELECT DISTINCT left(word, 64) COLLATE "C" FROM string_to_table(name_key, ' ') AS word
    WHERE word <> '' $$;
"""
AT_ONCE = 2_000


def rebuild_keys(apps, schema_editor):
    people = apps.get_model("patients", "Demographics").objects.using(schema_editor.connection.alias)
    named = people.order_by("pk").only("pk", "first_name", "last_name", "name_key")
    last = None
    while rows := list((named.filter(pk__gt=last) if last else named)[:AT_ONCE]):
        last, changed = rows[-1].pk, []
        for row in rows:
            key = name_key(row.first_name, row.last_name)
            if key != row.name_key:
                row.name_key = key
                changed.append(row)
        people.bulk_update(changed, ["name_key"])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("patients", "0005_a_draft_says_how_far")]

    operations = [
        migrations.RunSQL(WORDS, migrations.RunSQL.noop),
        migrations.RunPython(rebuild_keys, migrations.RunPython.noop),
    ]
