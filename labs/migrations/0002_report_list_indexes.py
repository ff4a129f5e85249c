from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("labs", "0001_initial"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="report",
            index=models.Index(
                fields=["state", "uploaded_at", "id", "uploaded_by"], name="report_by_state"
            ),
        ),
        AddIndexConcurrently(
            model_name="report",
            index=models.Index(
                condition=models.Q(
                    ("accepted_at__isnull", False), ("changed_since_accepted", False)
                ),
                fields=["accepted_at", "id", "uploaded_at", "uploaded_by"],
                name="report_by_acceptance",
            ),
        ),
    ]
