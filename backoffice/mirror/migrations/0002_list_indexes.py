"""Indexes of the lists of differences and unread records, and the end of those they replace."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("mirror", "0001_initial")]

    operations = [
        AddIndexConcurrently(
            "drift",
            models.Index(fields=["found_at", "id"], name="drift_by_time"),
        ),
        AddIndexConcurrently(
            "drift",
            models.Index(fields=["resource", "found_at", "id"], name="drift_of_resource"),
        ),
        AddIndexConcurrently(
            "drift",
            models.Index(fields=["kind", "found_at", "id"], name="drift_of_kind"),
        ),
        AddIndexConcurrently(
            "drift",
            models.Index(fields=["key"], name="drift_of_key"),
        ),
        AddIndexConcurrently(
            "unreadrecord",
            models.Index(fields=["last_seen", "id"], name="unread_by_time"),
        ),
        AddIndexConcurrently(
            "unreadrecord",
            models.Index(fields=["resource", "last_seen", "id"], name="unread_of_resource"),
        ),
        AddIndexConcurrently(
            "unreadrecord",
            models.Index(fields=["key"], name="unread_of_key"),
        ),
        RemoveIndexConcurrently("drift", "drift_latest"),
    ]
