"""What tables of the mirror have in common, and records that do not fit into them."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final, Self

from django.db import models
from django.db.models.base import ModelState
from django.db.models.functions import Now

from backoffice.core.encryption.encrypted_fields import EncryptedTextField
from backoffice.service import json_text


class Read(models.Model):
    """Rows that pages read by hundreds: what was read becomes the object as it is.

    Django calls `__init__` for each row, which asks every field and two signals, and takes most of
    the time of a list. None of ours has either.
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


AS_RECEIVED: Final = ("record", "content_hash")
"""Of a mirrored record what pages seldom read: it is long."""


class Mirrored(Read):
    """One record of the service, as received, with the columns that are read promoted.

    `as_of` is the moment the request that brought this version was sent; `missing_since` the
    moment the service was found to no longer have the record. Only `mirror.py` writes these.
    """

    record = models.TextField(help_text="JSON, byte for byte as received")
    content_hash = models.BinaryField(max_length=16)
    as_of = models.DateTimeField()
    missing_since = models.DateTimeField(null=True, default=None)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"

    def said(self, *path: str) -> dict[str, Any]:
        """The object at `path` of the record; empty when it is missing, null or anything else."""
        try:
            found = json.loads(self._readable_record())
        except (ValueError, RecursionError):
            return {}
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _readable_record(self) -> str:
        """The record without what its columns cannot hold either."""
        if "\\u" not in self.record:
            return self.record
        return json_text.replace_unstorable(self.record.encode()).decode()

    def pretty(self) -> str:
        """The record indented for reading, or as it is when it cannot be read."""
        try:
            return json.dumps(json.loads(self._readable_record()), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.record


class UnreadRecord(models.Model):
    """A record the back office could not read into its columns, or not all of it, kept whole."""

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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["resource", "key"], name="unread_record_once")
        ]
