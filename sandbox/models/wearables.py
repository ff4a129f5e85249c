"""How far wearable data has been told, and what the pulls of its history wait for."""

from django.db import models


class Feed(models.Model):
    """The news of one connection: told up to `told_until`, next told at `next_at`."""

    connection = models.OneToOneField(
        "Connection", models.CASCADE, primary_key=True, related_name="feed"
    )
    told_until = models.DateTimeField()
    next_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["next_at"], name="feed_due")]


class PullStep(models.Model):
    """A pull that goes on: its present step began at `since` and takes `dwell` at speed 1.

    `attempts` counts the tries so far; `outcome` is how it is bound to end, null: by chance.
    """

    pull = models.OneToOneField(
        "HistoricalPull", models.CASCADE, primary_key=True, related_name="step"
    )
    since = models.DateTimeField()
    dwell = models.DurationField()
    attempts = models.SmallIntegerField(default=0)
    outcome = models.CharField(max_length=16, null=True)
