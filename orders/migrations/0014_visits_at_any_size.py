from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Upper

BESIDE = ("status", "type", "state")
STANDING = Q(superseded_at=None)


class Migration(migrations.Migration):
    """Visits and orders to book are counted in indexes alone, those of a city in one of its own."""

    dependencies = [("orders", "0013_order_names")]

    operations = [
        migrations.RemoveIndex("appointment", "appointment_by_day"),
        migrations.RemoveIndex("appointment", "appointment_requested"),
        migrations.RemoveIndex("order", "order_to_book"),
        migrations.AddIndex(
            "appointment",
            models.Index(
                fields=["draw_day", "start_at", "id"],
                condition=STANDING,
                include=BESIDE,
                name="appointment_by_day",
            ),
        ),
        migrations.AddIndex(
            "appointment",
            models.Index(
                fields=["as_of", "id"],
                condition=Q(superseded_at=None, start_at=None),
                include=BESIDE,
                name="appointment_requested",
            ),
        ),
        migrations.AddIndex(
            "appointment",
            models.Index(
                Upper("city"),
                "draw_day",
                "start_at",
                "id",
                condition=STANDING,
                include=["status"],
                name="appointment_of_city",
            ),
        ),
        migrations.AddIndex(
            "order",
            models.Index(
                fields=["method", "created_at", "id"],
                condition=Q(low_level_status__in=("requisition_bypassed", "requisition_created")),
                include=["missing_since"],
                name="order_to_book",
            ),
        ),
    ]
