from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("sessions", "0002_a_column")]
    operations = [
        migrations.RunSQL(
            "CREATE INDEX CONCURRENTLY later_index ON django_session (later)",
            "DROP INDEX CONCURRENTLY later_index",
        )
    ]
