from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("labs", "0004_teams")]

    operations = [
        migrations.AddField(
            model_name="report",
            name="request_id",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="Of the page that asked to send it",
                max_length=32,
            ),
        ),
    ]
