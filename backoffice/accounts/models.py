"""Sessions of staff, throttle buckets, and queued e-mails about accounts."""

from __future__ import annotations

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now


class StaffSession(AbstractBaseSession):
    """A session and its user. Written by `session_store.py` and `limits.py`.

    `expire_date` is when it ends if nobody acts any more; `began_at` is the time of signing in.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    began_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(db_default=Now())
    ip = models.GenericIPAddressField(null=True)
    agent = models.CharField(max_length=200, default="", blank=True)

    class Meta:
        app_label = "backoffice"


class Throttle(models.Model):
    """A bucket that fills with attempts; see `throttle.py`."""

    key = models.CharField(max_length=64, primary_key=True, help_text="Digest of what is counted")
    free_at = models.DateTimeField(help_text="When it is empty again")

    class Meta:
        app_label = "backoffice"
        # Reader: throttle.delete_empty_buckets
        indexes = [models.Index(fields=["free_at"], name="throttle_free")]


class PasswordReset(models.Model):
    """A queued e-mail with a link to set a password. See `emails.py`."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    voided = models.BooleanField(
        default=False, db_default=False, help_text="An administrator voided the one before"
    )
    asked_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "backoffice"


class AccountNews(models.Model):
    """A queued notice: something about signing in to an account was changed. See `emails.py`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    email = models.EmailField(default="", db_default="", help_text="The owner's, before the change")
    what = models.CharField(max_length=100)
    ip = models.GenericIPAddressField(null=True)
    asked_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "backoffice"
