"""Measured usual times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import models

from backoffice.core.models import FastModel
from backoffice.core.prepared_queries import where

if TYPE_CHECKING:
    from orders.models import Order


class UsualTime(FastModel):
    """How long orders stayed in a step before the next one, per method and lab.

    This is measured over the orders that changed last (`measurement.MAX_ORDERS`). A value from
    fewer than `limits.MIN_SAMPLES` samples is only shown, and the default of the vocabulary
    applies.
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
    def for_order(cls, order: Order) -> UsualTime | None:
        """Return the usual time of the order's current step, or None."""
        step = [order.low_level_status, order.method, order.lab_slug or ""]
        usual_times = where(cls, "low_level_status = %s AND method = %s AND lab_slug = %s", step)
        return next(iter(usual_times), None)
