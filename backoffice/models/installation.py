"""Whose database this is, and what changed in it."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from backoffice.core.encryption.encrypted_fields import EncryptedTextField


class Installation(models.Model):
    """The one row that says whose database this is: see `installation.py`.

    `secret` is random: that it opens shows that the keys are the right ones, and what must be
    compared without being told is compared by digests under it.
    """

    id = models.UUIDField(primary_key=True)
    environment = models.CharField(max_length=40, help_text="Of the service, such as sandbox us")
    secret = EncryptedTextField()
    made_at = models.DateTimeField(db_default=Now())
    audit_first_entry = models.BigIntegerField(
        null=True, help_text="Id of the entry with which the audit trail begins"
    )
    team_id = models.UUIDField(
        null=True,
        help_text="The team of the service whose records are here, from the first sync on",
    )


class Change(models.Model):
    """Rows of one table that one transaction changed, for pages that stand open (`live.py`).

    `xact` is PostgreSQL's number of that transaction: a page knows which of them it has seen.
    `subjects` are the records, patients and orders concerned; null when there were too many.
    """

    xact = models.BigIntegerField()
    topic = models.CharField(max_length=40, help_text="Name of the table")
    rows = models.PositiveIntegerField()
    subjects = ArrayField(models.UUIDField(), null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["xact"], name="change_since")]
