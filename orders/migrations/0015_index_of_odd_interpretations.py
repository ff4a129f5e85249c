from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # The index of a large table is built without blocking writers.
    atomic = False

    dependencies = [
        ("orders", "0014_interpretation_rules"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="order",
            index=models.Index(
                condition=models.Q(("interpretation_received__isnull", False)),
                fields=["interpretation_received"],
                name="order_odd_interpretation",
            ),
        ),
    ]
