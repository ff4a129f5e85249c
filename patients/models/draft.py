"""Drafts of registrations."""

from __future__ import annotations

from django.db import models

from backoffice.accounts.models import User
from backoffice.core.encryption.encrypted_fields import EncryptedJSONField
from backoffice.pages.drafts import Draft


class RegistrationDraft(Draft):
    """A registration that a staff member has not sent yet: one per staff member."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="+")
    typed = EncryptedJSONField(default=dict)

    class Meta:
        # Reader: forget_old
        indexes = [models.Index(fields=["saved_at"], name="registration_draft_old")]

    def __str__(self) -> str:
        return f"registration by user {self.user_id}"
