"""The installation of this database, and the changes that open pages follow."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from backoffice.core.encryption.encrypted_fields import EncryptedTextField


class Installation(models.Model):
    """The one row that identifies the installation of this database: see `core/installation.py`.

    `secret` is random. If it can be decrypted, the keys are right. Values that must be compared
    without being revealed are compared by digests with this key.
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
    """Rows of one table that one transaction changed, for open pages (`pages/live.py`).

    `xact` is PostgreSQL's number of that transaction: a page remembers which ones it has seen.
    `subjects` are the records, patients and orders concerned; null if there were too many.
    """

    xact = models.BigIntegerField()
    topic = models.CharField(max_length=40, help_text="Name of the table")
    rows = models.PositiveIntegerField()
    subjects = ArrayField(models.UUIDField(), null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["xact"], name="change_since")]
