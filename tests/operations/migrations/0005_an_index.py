from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("admin", "0004_a_column")]
    operations = [
        migrations.RunSQL(
            "CREATE INDEX CONCURRENTLY later_index ON django_admin_log (later)",
            "DROP INDEX CONCURRENTLY later_index",
        )
    ]
