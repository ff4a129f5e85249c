"""Device data of patients: historical pulls."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from backoffice.models import Mirrored
from patients.models import mirrored_patient


class HistoricalPull(Mirrored):
    """How the backfill of one resource of one connection went (users.md 7)."""

    user = mirrored_patient("historical_pulls")
    provider = models.TextField()
    resource = models.TextField()
    status = models.TextField(help_text="`not_pulled` for the names listed as such")
    error_details = models.TextField(null=True)
    days_with_data = models.IntegerField(default=0)
    range_start = models.DateTimeField(null=True)
    range_end = models.DateTimeField(null=True)
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    release = models.TextField(null=True)
    trace_id = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "provider", "resource"], name="pull_key")
        ]
        indexes = [
            models.Index(
                fields=["user"],
                condition=Q(status__in=["failure", "retrying"]),
                name="pull_trouble",
            )
        ]
