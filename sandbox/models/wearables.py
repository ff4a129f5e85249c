"""How far wearable data has been announced, and the steps of historical pulls."""

from django.db import models


class Feed(models.Model):
    """The data events of one connection: announced up to `told_until`, next at `next_at`."""

    connection = models.OneToOneField(
        "Connection", models.CASCADE, primary_key=True, related_name="feed"
    )
    told_until = models.DateTimeField()
    next_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["next_at"], name="feed_due")]


class PullStep(models.Model):
    """An unfinished pull: its present step began at `since` and takes `dwell` at speed 1.

    `attempts` counts the attempts so far; `outcome` is how it will end, null: by chance.
    """

    pull = models.OneToOneField(
        "HistoricalPull", models.CASCADE, primary_key=True, related_name="step"
    )
    since = models.DateTimeField()
    dwell = models.DurationField()
    attempts = models.SmallIntegerField(default=0)
    outcome = models.CharField(max_length=16, null=True)
