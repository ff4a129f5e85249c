from django.db import migrations, models
from django.db.models import Q

ALONG = ["bucket", "low_level_status", "method", "interpretation", "lab_slug"]
MOMENTS = ["created_at", "updated_at"]
QUIET = ("preparing", "with-patient", "on-the-way", "at-lab")
WALKED = {
    "order_newest": (["-created_at", "-id"], None),
    "order_last_updated": (["-updated_at", "-id"], None),
    "order_by_patient_name": (["patient_name", "id"], None),
    "order_by_status": (["low_level_status", "created_at", "id"], None),
    "order_by_bucket": (["bucket", "-updated_at", "-id"], None),
    "order_over_usual": (["quiet_at", "id"], Q(quiet_at__isnull=False)),
    "exception_quiet": (["quiet_at", "id"], Q(bucket__in=QUIET, quiet_at__isnull=False)),
}


def walked(name):
    key, condition = WALKED[name]
    bare = [column.removeprefix("-") for column in key]
    rest = [column for column in [*MOMENTS, *ALONG] if column not in bare]
    return models.Index(fields=[*key, *rest], name=name, condition=condition)


class Migration(migrations.Migration):
    dependencies = [("orders", "0009_finding")]

    operations = [
        *(migrations.RemoveIndex(model_name="order", name=name) for name in WALKED),
        *(migrations.AddIndex(model_name="order", index=walked(name)) for name in WALKED),
        migrations.RunSQL(
            "CREATE STATISTICS order_kinds (mcv, dependencies)"
            " ON bucket, low_level_status, method, interpretation FROM orders_order;"
            " ALTER STATISTICS order_kinds SET STATISTICS 200",
            "DROP STATISTICS order_kinds",
        ),
    ]
