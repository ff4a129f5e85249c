from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # An index of a large table is made while others write.
    atomic = False

    dependencies = [
        ("backoffice", "0006_late_success"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="commandrecord",
            index=models.Index(
                condition=models.Q(
                    ("state", "given_up"),
                    models.Q(("doubted", True), ("state", "refused")),
                    _connector="OR",
                ),
                fields=["due_at"],
                name="command_followed",
            ),
        ),
        AddIndexConcurrently(
            model_name="commandrecord",
            index=models.Index(
                condition=models.Q(("late_after", ""), _negated=True),
                fields=["finished_at"],
                name="command_happened_late",
            ),
        ),
    ]
