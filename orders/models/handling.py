"""The latest action of staff on an order in the exception queue."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from backoffice.core.models import FastModel
from orders.models.order import Order


class Handling(FastModel):
    """Hides an order from the queue until a time, as long as nothing new happens.

    An event later than `event_id` returns the order to the queue at once, and so does the time
    `until`. There is one row per order, with the latest outcome. Every outcome is also a `Contact`
    or an audit entry.
    """

    order = models.OneToOneField(
        Order,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="handling",
    )
    event_id = models.BigIntegerField(help_text="The order's latest event then")
    outcome = models.CharField(max_length=20)
    reason = models.TextField(default="", blank=True)
    until = models.DateTimeField(null=True, help_text="When it comes back; null: only by an event")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        indexes = [
            # Reader: the snoozed orders
            models.Index(
                fields=["until", "order"],
                condition=Q(until__isnull=False),
                name="handling_comes_back",
            )
        ]

    def __str__(self) -> str:
        return f"{self.outcome} until {self.until}"
