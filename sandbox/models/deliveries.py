"""Webhooks on their way: where they go, and every message with what became of it (webhooks.md 1).

All moments here are real ones, except `Message.happened_at`: receivers live in real time.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class WebhookEndpoint(models.Model):
    """Where a team wants its events (webhooks.md 1.2). `filter_types` null or empty: all of them.

    `former_secret` signs beside `secret` until `former_until`. `first_failure_at` opens a run of
    failures, `failing_since` is when that run became one that counts towards disabling.
    """

    id = models.CharField(max_length=40, primary_key=True)
    team = models.ForeignKey("Team", models.CASCADE)
    url = models.CharField(max_length=2048)
    description = models.CharField(max_length=1000, null=True)
    rate_limit = models.IntegerField(null=True)
    disabled = models.BooleanField(default=False)
    filter_types = ArrayField(models.CharField(max_length=128), null=True)
    headers = models.JSONField(default=dict)
    secret = models.CharField(max_length=120)
    former_secret = models.CharField(max_length=120, null=True)
    former_until = models.DateTimeField(null=True)
    first_failure_at = models.DateTimeField(null=True)
    failing_since = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()


class Message(models.Model):
    """One event for one endpoint. `message_id` is the receiver's key: the same on every attempt.

    While `claimed`, `due_at` is when the claim lapses. A delivered message that is `pending` waits
    to be sent once more. `held`: faults have had their turn with it, or are to leave it alone.
    `attempts` counts the real ones; `copies`, `forged`, `stale` what faults sent besides, and
    `swallowed` how many forged and stale posts were answered 2xx. `last_status` 0: no answer.
    """

    number = models.BigAutoField(primary_key=True)
    message_id = models.CharField(max_length=40, unique=True)
    endpoint = models.ForeignKey(WebhookEndpoint, models.CASCADE, related_name="messages")
    event_type = models.CharField(max_length=128)
    user_id = models.UUIDField(null=True)
    body = models.TextField()
    happened_at = models.DateTimeField()
    queued_at = models.DateTimeField()
    state = models.CharField(max_length=12, default="pending")
    due_at = models.DateTimeField()
    claimed = models.BooleanField(default=False)
    attempts = models.SmallIntegerField(default=0)
    last_status = models.SmallIntegerField(null=True)
    ended_at = models.DateTimeField(null=True)
    held = models.BooleanField(default=False)
    altered = models.BooleanField(default=False)
    copies = models.SmallIntegerField(default=0)
    forged = models.SmallIntegerField(default=0)
    stale = models.SmallIntegerField(default=0)
    swallowed = models.SmallIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["pending", "delivered", "failed"]),
                name="message_state",
            )
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "due_at", "number"],
                condition=models.Q(state="pending"),
                name="message_due",
            )
        ]


class DeliverySettings(models.Model):
    """The single row (id 1) that says what goes wrong on purpose; values as in `Faults`."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    values = models.JSONField(default=dict)
