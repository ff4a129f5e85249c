from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("orders", "0002_review_list_indexes"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="appointment",
            index=models.Index(
                condition=models.Q(("superseded_at", None), ("type", "patient_service_center")),
                fields=["provider_id", "draw_day", "start_at", "id"],
                name="appointment_of_site",
            ),
        ),
    ]
