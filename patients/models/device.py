"""Connected sources of device data, and their providers."""

from __future__ import annotations

from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from backoffice.mirror.models import MirrorModel
from patients.models.patient import mirrored_patient

FAILING_STATUSES: Final = ("failure", "retrying")
"""Statuses of the historical pulls that failed or are retried."""
PHONE_APP_AUTH_TYPES: Final = ("sdk", "app")
"""`auth_type` of the providers that only an app on the patient's phone can connect."""


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

    @classmethod
    def names(cls) -> dict[str, str]:
        """Return the names of all providers, by slug."""
        return dict(cls.objects.values_list("slug", "name"))

    @classmethod
    def names_for_links(cls) -> dict[str, str]:
        """Return the names, by slug, of the providers that a patient can connect by a link."""
        rows = cls.objects.filter(missing_since=None).exclude(auth_type__in=PHONE_APP_AUTH_TYPES)
        names = rows.order_by("name", "slug").values_list("slug", "name")
        return {slug: name or slug for slug, name in names}
