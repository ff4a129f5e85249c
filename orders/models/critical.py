"""Critical results as the service announced them (webhooks, chapter 4.1).

Whether a result is critical is decided in `orders/sync/result_versions.py`.
"""

from __future__ import annotations

from django.db import models

from orders.models.order import Order
from patients.models import mirrored_patient


class CriticalAnnouncement(models.Model):
    """The latest announcement that an order has a critical result.

    It is written from the event alone, before the result itself is read. Texts are stored as
    received; the values are in `Result`.
    """

    order = models.OneToOneField(
        Order,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="critical_announcement",
    )
    user = mirrored_patient("critical_results")
    sample_id = models.TextField(null=True)
    status = models.TextField(default="", help_text="final or partial")
    interpretation = models.TextField(default="")
    created_at = models.DateTimeField(null=True, help_text="First fetched from the lab")
    updated_at = models.DateTimeField(null=True, help_text="Last fetched from the lab")
    first_heard_at = models.DateTimeField(help_text="Receipt of the first event of this order")
    heard_at = models.DateTimeField(help_text="Receipt of the event that said this")
    event_number = models.BigIntegerField(help_text="Which event of the inbox said this")
    message_id = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["-heard_at"], name="critical_latest"),
            models.Index(fields=["user", "-heard_at"], name="critical_of_patient"),
        ]

    def __str__(self) -> str:
        return f"critical result of order {self.pk}"
