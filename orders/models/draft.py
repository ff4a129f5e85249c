"""Orders that are being written: kept per member of staff and patient until placed or left."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from backoffice.models import User
from backoffice.sealing import SealedJSON

KEPT: Final = timedelta(days=14)
"""A draft holds personal data: one that nobody touched for so long goes."""


class OrderDraft(models.Model):
    """What stands in the form, as typed: field names to values."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    patient_id = models.UUIDField()
    importing = models.BooleanField(default=False)
    typed = SealedJSON(by="patient_id", default=dict)
    saved_at = models.DateTimeField(db_default=Now())

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

    @classmethod
    def forget_old(cls) -> None:
        cls.objects.filter(saved_at__lt=timezone.now() - KEPT).delete()
