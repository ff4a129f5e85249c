"""Base class of mirrored tables, records that could not be read into them, and drift."""

from __future__ import annotations

import json
from typing import Final, Self

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from backoffice.core.encryption.encrypted_fields import EncryptedTextField
from backoffice.core.models import FastModel
from backoffice.service import json_text
from backoffice.service.json_text import JsonObject

AS_RECEIVED: Final = ("record", "content_hash")
"""Long columns of a mirrored record that pages seldom read."""


class MirrorModel(FastModel):
    """Base class of mirrored records: the record as received, and promoted columns.

    `as_of` is when the request for this version was sent; `missing_since` when the service was
    found to no longer have the record. Only the `mirror` package writes these.
    """

    record = models.TextField(help_text="JSON, byte for byte as received")
    content_hash = models.BinaryField(max_length=16)
    as_of = models.DateTimeField()
    missing_since = models.DateTimeField(null=True, default=None)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"

    def record_at(self, *path: str) -> JsonObject:
        """Return the object at `path` of the record; empty if it is missing or not an object."""
        try:
            value = json.loads(self._readable_record())
        except (ValueError, RecursionError):
            return {}
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def _readable_record(self) -> str:
        """Return the record without characters that PostgreSQL text cannot store."""
        if "\\u" not in self.record:
            return self.record
        return json_text.replace_unstorable(self.record.encode()).decode()

    def pretty(self) -> str:
        """Return the record indented for reading; unchanged if it is not valid JSON."""
        try:
            return json.dumps(json.loads(self._readable_record()), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.record


class UnreadRecordQuerySet(models.QuerySet["UnreadRecord"]):
    def without_record(self) -> Self:
        """Do not read the records themselves: they are long and encrypted."""
        return self.defer("record")

    def last_seen_first(self) -> Self:
        return self.order_by("-last_seen", "-id")


class UnreadRecord(models.Model):
    """A record that could not be read into columns, or only in part; it is saved whole."""

    resource = models.CharField(max_length=40)
    key = models.TextField(help_text="The record's id where it could be made out, else its hash")
    path = models.TextField(default="", blank=True)
    reason = models.TextField(default="", blank=True)
    record = EncryptedTextField(by="key")
    is_stored = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Only the parts at `path` were left out, the rest was stored",
    )
    first_seen = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())

    objects = UnreadRecordQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["resource", "key"], name="unread_record_once")
        ]
        # Reader: the list of unread records, filtered and sorted
        indexes = [
            models.Index(fields=["last_seen", "id"], name="unread_by_time"),
            models.Index(fields=["resource", "last_seen", "id"], name="unread_of_resource"),
            models.Index(fields=["key"], name="unread_of_key"),
        ]


class DriftQuerySet(models.QuerySet["Drift"]):
    def newest_first(self) -> Self:
        return self.order_by("-found_at", "-id")


class Drift(models.Model):
    """A difference between mirror and service, or an unexpected change of a record."""

    class Kind(models.TextChoices):
        MISSING_LOCAL = "missing_local", gettext_lazy("Missing here")
        MISSING_REMOTE = "missing_remote", gettext_lazy("No longer at the service")
        STALE = "stale", gettext_lazy("Out of date here")
        SCHEMA = "schema", gettext_lazy("Could not be read")
        HISTORY_CONFLICT = "history_conflict", gettext_lazy("History was rewritten")
        MOVED = "moved", gettext_lazy("Moved to another patient")
        REGRESSED = "regressed", gettext_lazy("Moved back to an earlier status")

    run = models.ForeignKey(
        "sync.SyncRun", on_delete=models.CASCADE, null=True, related_name="drifts"
    )
    resource = models.CharField(max_length=40)
    key = models.TextField()
    kind = models.CharField(max_length=20, choices=Kind)
    detail = models.TextField(default="", blank=True)
    found_at = models.DateTimeField(db_default=Now())

    objects = DriftQuerySet.as_manager()

    class Meta:
        # Reader: the list of differences, filtered and sorted
        indexes = [
            models.Index(fields=["found_at", "id"], name="drift_by_time"),
            models.Index(fields=["resource", "found_at", "id"], name="drift_of_resource"),
            models.Index(fields=["kind", "found_at", "id"], name="drift_of_kind"),
            models.Index(fields=["key"], name="drift_of_key"),
        ]
