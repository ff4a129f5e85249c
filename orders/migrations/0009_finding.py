from django.contrib.postgres.indexes import OpClass
from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Upper

FILL = """
    WITH zones AS MATERIALIZED (SELECT name FROM pg_timezone_names)
    UPDATE orders_appointment SET draw_day = (start_at AT TIME ZONE coalesce(
        (SELECT name FROM zones WHERE name = iana_timezone), 'UTC'
    ))::date
    WHERE start_at IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [("orders", "0008_today")]

    operations = [
        migrations.AddField(
            model_name="appointment",
            name="draw_day",
            field=models.DateField(
                help_text="Calendar date of the start where it is; of UTC if that is not known",
                null=True,
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="appointment",
            index=models.Index(
                condition=Q(superseded_at=None),
                fields=["draw_day", "start_at", "id"],
                name="appointment_by_day",
            ),
        ),
        migrations.AddIndex(
            model_name="appointment",
            index=models.Index(
                condition=Q(superseded_at=None),
                fields=["provider", "draw_day", "start_at", "id"],
                name="appointment_of_provider",
            ),
        ),
        migrations.AddIndex(
            model_name="appointment",
            index=models.Index(
                condition=Q(superseded_at=None),
                fields=["status", "draw_day", "start_at", "id"],
                name="appointment_of_status",
            ),
        ),
        migrations.AddIndex(
            model_name="appointment",
            index=models.Index(
                condition=Q(superseded_at=None, start_at=None),
                fields=["as_of", "id"],
                name="appointment_requested",
            ),
        ),
        migrations.AddIndex(
            model_name="appointment",
            index=models.Index(
                OpClass(Upper("external_id"), name="text_pattern_ops"),
                condition=Q(external_id__isnull=False),
                name="appointment_by_number",
            ),
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(
                OpClass(Upper("sample_id"), name="text_pattern_ops"),
                condition=Q(sample_id__isnull=False),
                name="order_sample_beginning",
            ),
        ),
        migrations.AddIndex(
            model_name="order",
            index=models.Index(
                condition=Q(low_level_status__in=("requisition_bypassed", "requisition_created")),
                fields=["method", "created_at", "id"],
                name="order_to_book",
            ),
        ),
    ]
