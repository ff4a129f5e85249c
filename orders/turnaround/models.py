"""Usual times, as measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from backoffice.core.prepared_queries import where
from backoffice.models import Read

if TYPE_CHECKING:
    from orders.models import Order


class UsualTime(Read):
    """How long orders rested in a step before the next one, per method and lab.

    Of the orders that changed last (`measuring.ORDERS`). With fewer than `limits.ENOUGH` samples
    it is only shown; the fixed default of the vocabulary holds.
    """

    low_level_status = models.TextField()
    method = models.TextField()
    lab_slug = models.TextField(default="", blank=True, help_text="Empty: orders without a lab")
    samples = models.PositiveIntegerField()
    p50_seconds = models.PositiveIntegerField()
    p90_seconds = models.PositiveIntegerField()
    measured_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["low_level_status", "method", "lab_slug"], name="usual_time_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.low_level_status} {self.method} {self.lab_slug}: {self.p90_seconds} s"

    @classmethod
    def of(cls, order: Order) -> UsualTime | None:
        """What is known of the step where this order is."""
        step = [order.low_level_status, order.method, order.lab_slug or ""]
        found = where(cls, "low_level_status = %s AND method = %s AND lab_slug = %s", step)
        return next(iter(found), None)
