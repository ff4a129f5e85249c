from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    """Whether people were told of a critical result is asked every few seconds."""

    atomic = False
    dependencies = [("backoffice", "0017_tidy_entries")]

    operations = [
        AddIndexConcurrently(
            "notification",
            models.Index(
                fields=["subject_id", "about"],
                condition=models.Q(kind="critical-waits"),
                name="notification_critical",
            ),
        ),
    ]
