"""Labels of the kinds of differences in plain words. The database does not change."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mirror", "0002_list_indexes")]

    operations = [
        migrations.AlterField(
            model_name="drift",
            name="kind",
            field=models.CharField(
                choices=[
                    ("missing_local", "Missing here"),
                    ("missing_remote", "No longer at the service"),
                    ("stale", "Out of date here"),
                    ("schema", "Could not be read"),
                    ("history_conflict", "History was rewritten"),
                    ("moved", "Moved to another patient"),
                    ("regressed", "Moved back to an earlier status"),
                ],
                max_length=20,
            ),
        ),
    ]
