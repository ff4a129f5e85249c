"""Drafts of orders: one for each staff member and patient, until it is placed or discarded."""

from __future__ import annotations

from django.db import models

from backoffice.accounts.models import User
from backoffice.core.encryption.encrypted_fields import EncryptedJSONField
from backoffice.pages.drafts import Draft


class OrderDraft(Draft):
    """The contents of the order form as typed: field names to values."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    patient_id = models.UUIDField()
    importing = models.BooleanField(default=False)
    typed = EncryptedJSONField(by="patient_id", default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "patient_id", "importing"], name="one_draft_of_an_order"
            )
        ]
        # Reader: forget_old
        indexes = [models.Index(fields=["saved_at"], name="order_draft_old")]

    def __str__(self) -> str:
        return f"draft of user {self.user_id}"
