"""Webhook endpoints, and every message with its state (webhooks.md 1).

All times are real times, except `Message.happened_at`, which is a time of the world.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class WebhookEndpoint(models.Model):
    """A URL that gets the events of a team (webhooks.md 1.2). `filter_types` null or empty: all.

    `former_secret` signs beside `secret` until `former_until`. `first_failure_at` is the start of a
    run of failures; `failing_since` is when that run began to count toward disabling.
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

    While `claimed`, `due_at` is when the lease ends. A delivered message that is `pending` waits to
    be sent once more. `held`: faults were applied to it, or must not be. `attempts` counts genuine
    requests; `copies`, `forged` and `stale` count additional ones by faults, and `swallowed` the
    forged and stale ones that were answered 2xx. `last_status` 0: no answer.
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
    """The single row (id 1) with the intended failures of deliveries; values as in `Faults`."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    values = models.JSONField(default=dict)
