from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("admin", "0003_logentry_add_action_flag_choices")]
    operations = [
        migrations.RunSQL(
            "ALTER TABLE django_admin_log ADD COLUMN later integer",
            "ALTER TABLE django_admin_log DROP COLUMN later",
        )
    ]
