"""Tables that every app uses: installation, changes, unknown values, state of the deployment."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.base import ModelState
from django.db.models.functions import Now

from backoffice.core.encryption.encrypted_fields import EncryptedTextField


class FastModel(models.Model):
    """Base class of models that pages read by hundreds: `from_db` sets the attributes directly.

    Django calls `__init__` for each row, which visits every field and sends two signals, and takes
    most of the time of a list. These models need neither.
    """

    class Meta:
        abstract = True

    @classmethod
    def from_db(
        cls, db: str | None, field_names: Collection[str], values: Collection[Any], **_: Any
    ) -> Self:
        row = cls.__new__(cls)
        row.__dict__.update(zip(field_names, values, strict=True))
        row._state = ModelState()
        row._state.adding = False
        row._state.db = db
        return row


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


class Heartbeat(models.Model):
    """The time a worker last took a heartbeat message from a queue.

    Beat sends one to every queue. A live worker that takes nothing from its queue leaves none.
    """

    queue = models.CharField(max_length=20, primary_key=True)
    worker = models.CharField(max_length=100)
    at = models.DateTimeField()


class Backup(models.Model):
    """A completed backup; `at` is the time of its data."""

    at = models.DateTimeField()
    seconds = models.FloatField()
    bytes = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["-at"], name="backup_latest")]


class Hold(models.Model):
    """Nothing new is sent to the service from `since` until a person releases it.

    After a restore the service may have records that this database lost, which are fetched first.
    `restored_to` is the time of the data in the backup.
    """

    since = models.DateTimeField(db_default=Now())
    restored_to = models.DateTimeField()
    released_at = models.DateTimeField(null=True)
    released_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                models.Value(1), condition=models.Q(released_at=None), name="one_hold"
            )
        ]


class UnknownValueQuerySet(models.QuerySet["UnknownValue"]):
    def last_seen_first(self) -> Self:
        return self.order_by("-last_seen", "-id")


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
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    spread_at = models.DateTimeField(null=True)
    moved = models.BigIntegerField(default=0, db_default=0)
    sightings = models.BigIntegerField(default=0)
    first_seen = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())
    sample_key = models.TextField(default="", blank=True)

    objects = UnknownValueQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["vocabulary", "value"], name="unknown_value_once")
        ]
        indexes = [
            # Readers: accounts.backend on every page, vocabulary.decisions
            models.Index(
                fields=["decision"], condition=Q(decision__gt=0), name="unknown_value_decided"
            ),
            models.Index(fields=["-last_seen", "-id"], name="unknown_value_last_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.vocabulary}: {self.value}"
