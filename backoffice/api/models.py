"""Tokens of the JSON API."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class ApiToken(models.Model):
    """A token, without its text. The row stays after the token expires or is revoked.

    `scopes` are permissions. A scope cannot add a permission that the account's roles do not
    grant. `created_by` is null for a token from `manage.py createtoken`.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    key_id = models.CharField(
        max_length=12, unique=True, help_text="Names the token, and is no secret"
    )
    digest = models.BinaryField(max_length=32, unique=True)
    name = models.CharField(max_length=80, default="", blank=True, help_text="What it is for")
    scopes = ArrayField(models.CharField(max_length=40), default=list)
    form_id = models.UUIDField(
        null=True, unique=True, help_text="One per form shown: a second send makes no second token"
    )
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    expires_at = models.DateTimeField(null=True, help_text="Null: good until it is revoked")
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True, help_text="To the minute")

    def __str__(self) -> str:
        return f"{self.key_id} of {self.user_id}"

    def state(self, now: datetime) -> str:
        """Return `revoked`, `expired` or `good`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "good"
