"""Indexes for the filters and sorts of the list of runs, in place of those that they make unnecessary."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("sync", "0001_initial")]

    operations = [
        AddIndexConcurrently(
            "syncrun",
            models.Index(fields=["created_at", "id"], name="run_by_time"),
        ),
        AddIndexConcurrently(
            "syncrun",
            models.Index(fields=["resource", "created_at", "id"], name="run_of_resource"),
        ),
        AddIndexConcurrently(
            "syncrun",
            models.Index(fields=["state", "created_at", "id"], name="run_in_state"),
        ),
        AddIndexConcurrently(
            "syncrun",
            models.Index(
                fields=["resource", "created_at", "id"],
                condition=models.Q(full=True),
                name="run_full_of_resource",
            ),
        ),
        RemoveIndexConcurrently("syncrun", "run_latest_of_resource"),
    ]
