"""Unknown values of open enumerations."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from backoffice.models.staff import User


class UnknownValue(models.Model):
    """A value of an open enumeration that is missing in `vocabulary`.

    `bucket` and `label` are what an admin assigned to it (`vocabulary.decisions`); `decision` is
    the growing number of that decision. `spread_at` is when orders with this status were last
    checked to be in their bucket, `moved` how many were moved there.
    """

    vocabulary = models.CharField(max_length=60)
    value = models.TextField()
    bucket = models.CharField(max_length=20, default="", blank=True)
    label = models.CharField(max_length=80, default="", db_default="", blank=True)
    decision = models.BigIntegerField(default=0, db_default=0)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    spread_at = models.DateTimeField(null=True)
    moved = models.BigIntegerField(default=0, db_default=0)
    sightings = models.BigIntegerField(default=0)
    first_seen = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())
    sample_key = models.TextField(default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["vocabulary", "value"], name="unknown_value_once")
        ]
        indexes = [
            # Readers: session.Staff on every page, vocabulary.decisions
            models.Index(
                fields=["decision"], condition=Q(decision__gt=0), name="unknown_value_decided"
            ),
            models.Index(fields=["-last_seen", "-id"], name="unknown_value_last_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.vocabulary}: {self.value}"
