"""Indexes for the filters and sorts of the list of requests, in place of those that they make unnecessary."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("outbox", "0001_initial")]

    operations = [
        AddIndexConcurrently(
            "commandrecord",
            models.Index(
                fields=["subject_id", "subject_type", "-requested_at"], name="command_of_record"
            ),
        ),
        AddIndexConcurrently(
            "commandrecord",
            models.Index(fields=["state", "requested_at", "id"], name="command_in_state"),
        ),
        AddIndexConcurrently(
            "commandrecord",
            models.Index(fields=["kind", "requested_at", "id"], name="command_of_kind"),
        ),
        RemoveIndexConcurrently("commandrecord", "command_of_subject"),
        RemoveIndexConcurrently("commandrecord", "command_refused"),
    ]
