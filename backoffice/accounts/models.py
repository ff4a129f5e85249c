"""Sessions of staff, how often was guessed, and e-mails about accounts that wait."""

from __future__ import annotations

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now


class StaffSession(AbstractBaseSession):
    """A session, and whose. Written by `session_store.py` and `limits.py`.

    `expire_date` is when it ends if nothing more is done; `began_at` is the log-in.
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
    """A bucket of tries that runs full; see `throttle.py`."""

    key = models.CharField(max_length=64, primary_key=True, help_text="Digest of what is counted")
    free_at = models.DateTimeField(help_text="When it is empty again")

    class Meta:
        app_label = "backoffice"
        # Reader: throttle.forget
        indexes = [models.Index(fields=["free_at"], name="throttle_free")]


class PasswordReset(models.Model):
    """A link to set a new password is to be mailed. The row is the work: see `mailing.py`."""

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
    """Something about how somebody gets in was changed. The row is the work: see `mailing.py`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    email = models.EmailField(default="", db_default="", help_text="The owner's, before the change")
    what = models.CharField(max_length=100)
    ip = models.GenericIPAddressField(null=True)
    asked_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "backoffice"
