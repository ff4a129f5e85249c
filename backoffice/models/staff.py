"""Members of staff."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


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
    first_password_until = models.DateTimeField(
        null=True, help_text="Their password is one they were given: see `first_passwords.py`"
    )

    def get_full_name(self) -> str:
        """Return first and last name, or the user name if both are empty."""
        return super().get_full_name() or self.get_username()

    def set_password(self, raw_password: str | None) -> None:
        """Set a password that the user chose; `first_passwords.give` marks temporary ones."""
        super().set_password(raw_password)
        self.first_password_until = None

    def check_password(self, raw_password: str | None) -> bool:
        """Check the password; Django calls `set_password` to update a hash with old parameters."""
        until = self.first_password_until
        fits = super().check_password(raw_password)
        self.first_password_until = until
        return fits
