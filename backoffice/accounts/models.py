"""Members of staff, their sessions, throttle buckets, and queued emails about accounts."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now


class User(AbstractUser):
    """A member of staff or a service account. Roles are group names (see `access.py`)."""

    time_zone = models.CharField(max_length=64, default="UTC", help_text="IANA zone name")
    theme = models.CharField(
        max_length=5, default="", db_default="", blank=True, help_text="light, dark; empty: system"
    )
    density = models.CharField(
        max_length=8, default="default", db_default="default", help_text="compact, default, touch"
    )
    single_keys = models.BooleanField(
        default=True, db_default=True, help_text="Shortcuts of one key are on"
    )
    language = models.CharField(
        max_length=8, default="en", db_default="en", help_text="One of the setting LANGUAGES"
    )
    day_first = models.BooleanField(
        default=False, db_default=False, help_text="Dates are written 25 Nov, not Nov 25"
    )
    hours_24 = models.BooleanField(
        default=False, db_default=False, help_text="Times are written 23:05, not 11:05 PM"
    )
    first_password_until = models.DateTimeField(
        null=True, help_text="Their password is one they were given: see `first_passwords.py`"
    )

    cached_roles: frozenset[str] | None = None
    """Roles of the user, remembered for one request (`access.roles_of`)."""
    scopes: frozenset[str] | None = None
    """Permissions of the API token of the request; None without a token."""

    def get_full_name(self) -> str:
        """Return first and last name, or the user name if both are empty."""
        return super().get_full_name() or self.get_username()

    def set_password(self, raw_password: str | None) -> None:
        """Set a password that the user chose; `first_passwords.issue` marks temporary ones."""
        super().set_password(raw_password)
        self.first_password_until = None

    def check_password(self, raw_password: str | None) -> bool:
        """Check the password; Django calls `set_password` to update a hash with old parameters."""
        until = self.first_password_until
        fits = super().check_password(raw_password)
        self.first_password_until = until
        return fits


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


class Throttle(models.Model):
    """A bucket that fills with attempts; see `throttle.py`."""

    key = models.CharField(max_length=64, primary_key=True, help_text="Digest of what is counted")
    free_at = models.DateTimeField(help_text="When it is empty again")

    class Meta:
        # Reader: throttle.delete_empty_buckets
        indexes = [models.Index(fields=["free_at"], name="throttle_free")]


class PasswordReset(models.Model):
    """A queued email with a link to set a password. See `emails.py`."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    voided = models.BooleanField(
        default=False, db_default=False, help_text="An administrator voided the one before"
    )
    asked_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())


class AccountNews(models.Model):
    """A queued notice: something about signing in to an account was changed. See `emails.py`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    email = models.EmailField(default="", db_default="", help_text="The owner's, before the change")
    what = models.CharField(max_length=100)
    ip = models.GenericIPAddressField(null=True)
    asked_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())
