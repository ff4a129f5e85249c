"""Store on the review whether a result names its patient.

Results that wait for a review are read again, and compared then.
"""

from django.db import migrations, models

READ_AGAIN = """
INSERT INTO backoffice_lookup (kind, key, due_at)
SELECT 'results', order_id::text, now() FROM orders_review WHERE version > signed AND version > 0
ON CONFLICT (kind, key) DO UPDATE SET generation = backoffice_lookup.generation + 1,
 attempts = 0, due_at = least(backoffice_lookup.due_at, EXCLUDED.due_at);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("backoffice", "0001_initial"),
        ("orders", "0009_names_written_together"),
    ]

    operations = [
        migrations.AddField(
            "review",
            "identity",
            models.TextField(db_default="", default="", help_text="same, different or unknown: the person on the result"),
        ),
        migrations.RunSQL(READ_AGAIN, migrations.RunSQL.noop),
    ]
