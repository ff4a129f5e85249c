from django.db import migrations, models
from django.db.models import Q

CONDITIONS = {
    "lost": Q(low_level_status__in=("lost", "sample_error")),
    "stuck": Q(low_level_status__in=("lab_processing_blocked",)),
    "delivery": Q(
        low_level_status__in=(
            "problem_in_transit_customer",
            "problem_in_transit_lab",
            "failure_to_deliver_to_customer",
            "failure_to_deliver_to_lab",
        )
    ),
    "draw": Q(low_level_status__in=("redraw_available", "appointment_cancelled")),
    "quiet": Q(
        bucket__in=("preparing", "with-patient", "on-the-way", "at-lab"), quiet_at__isnull=False
    ),
}
KEY = ["quiet_at", "id"]
ALONG = ["created_at", "updated_at", "bucket", "low_level_status", "method", "interpretation"]


class Migration(migrations.Migration):
    """The counts of the exception queue read its indexes alone."""

    dependencies = [("orders", "0010_lists_at_any_size")]

    operations = [
        *(migrations.RemoveIndex("order", f"exception_{name}") for name in CONDITIONS),
        *(
            migrations.AddIndex(
                "order",
                models.Index(
                    fields=[*KEY, *ALONG, "lab_slug"] if name == "quiet" else KEY,
                    condition=condition,
                    include=("last_event_id", "missing_since"),
                    name=f"exception_{name}",
                ),
            )
            for name, condition in CONDITIONS.items()
        ),
    ]
