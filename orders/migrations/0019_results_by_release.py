"""An index that finds results that an earlier release has read."""

from __future__ import annotations

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Substr


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("orders", "0018_days_of_visits_without_a_zone")]

    operations = [
        AddIndexConcurrently(
            "result", models.Index(Substr("content_hash", 16), "order", name="result_revision")
        )
    ]
