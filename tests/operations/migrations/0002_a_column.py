from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("sessions", "0001_initial")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE django_session ADD COLUMN later integer",
            "ALTER TABLE django_session DROP COLUMN later",
        )
    ]
