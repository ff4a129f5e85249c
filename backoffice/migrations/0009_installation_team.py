from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("backoffice", "0008_lookup_unread_answers")]

    operations = [
        migrations.AddField(
            model_name="installation",
            name="team_id",
            field=models.UUIDField(
                help_text="The team of the service whose records are here, from the first sync on",
                null=True,
            ),
        ),
    ]
