from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0015_account_news")]

    operations = [
        migrations.AlterField(
            model_name="drift",
            name="kind",
            field=models.CharField(
                choices=[
                    ("missing_local", "Was missing here"),
                    ("missing_remote", "No longer at the service"),
                    ("stale", "Was out of date here"),
                    ("schema", "Could not be read"),
                    ("history_conflict", "History was rewritten"),
                    ("moved", "Went to another patient"),
                    ("regressed", "Went back in its life"),
                ],
                max_length=20,
            ),
        ),
    ]
