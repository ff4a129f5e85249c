"""Connected sources of device data, and their providers."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from backoffice.mirror.models import MirrorModel
from patients.models.patient import mirrored_patient


class Connection(MirrorModel):
    """A connected source of a user (users.md 7)."""

    user = mirrored_patient("connections")
    slug = models.TextField()
    name = models.TextField()
    logo = models.TextField(default="")
    created_on = models.DateTimeField()
    status = models.TextField()
    error_type = models.TextField(null=True)
    error_message = models.TextField(null=True)
    errored_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "slug"], name="connection_key")]
        indexes = [
            models.Index(
                fields=["user"], condition=~Q(status="connected"), name="connection_trouble"
            )
        ]


class Provider(MirrorModel):
    """A provider of device data (wearables.md 6). Names and logos of providers come from here."""

    slug = models.TextField(primary_key=True)
    name = models.TextField()
    description = models.TextField(default="")
    logo = models.TextField(null=True)
    auth_type = models.TextField(null=True)
    supported_resources = ArrayField(models.TextField(), default=list)
