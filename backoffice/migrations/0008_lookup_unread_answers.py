from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0007_indexes_of_late_success")]

    operations = [
        migrations.AddField(
            model_name="lookup",
            name="unread_answers",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="Those of the attempts that were answered, but not read or stored",
            ),
        ),
    ]
