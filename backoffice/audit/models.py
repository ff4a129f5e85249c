"""Audit entries, the seals over them, checks, and reviews.

Rows of entries, seals, and reviews are only added: database triggers refuse updates and deletions
(`audit/sql/append_only.sql`), except of expired entries, which only `retention.py` removes.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class AuditEntry(models.Model):
    """Who viewed or changed what. Written only by `recording.py`, never updated.

    `before` and `after` hold the values that a change in the back office itself changed, without
    those that stayed the same.
    """

    at = models.DateTimeField(db_default=Now())
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        db_index=False,
    )
    actor_kind = models.CharField(max_length=20, default="staff")
    action = models.CharField(max_length=20)
    object_type = models.CharField(max_length=40)
    object_ids = ArrayField(models.TextField(), default=list)
    patient_ids = ArrayField(models.UUIDField(), default=list)
    route = models.CharField(max_length=100, default="", blank=True)
    request_id = models.CharField(max_length=64, default="", blank=True)
    ip = models.GenericIPAddressField(null=True)
    outcome = models.CharField(max_length=20, default="ok")
    reason = models.TextField(default="", blank=True)
    row_count = models.IntegerField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)

    class Meta:
        indexes = [
            # Readers: the list, whole and by each of its filters; the last three also join.
            models.Index(fields=["-at", "-id"], name="audit_latest"),
            models.Index(fields=["actor", "-at", "-id"], name="audit_of_actor"),
            models.Index(fields=["action", "-at", "-id"], name="audit_of_action"),
            models.Index(fields=["object_type", "-at", "-id"], name="audit_of_kind"),
            models.Index(fields=["-at", "-id"], condition=~Q(outcome="ok"), name="audit_refused"),
            models.Index(fields=["request_id"], name="audit_of_request"),
            GinIndex(fields=["object_ids"], name="audit_of_object"),
            # Readers: also `patient_viewers.py`
            GinIndex(fields=["patient_ids"], name="audit_of_patient"),
            # Reader: team.changes
            GinIndex(
                fields=["object_ids"], condition=Q(action="change"), name="audit_changes_of_object"
            ),
        ]


class AuditSeal(models.Model):
    """A range of entries that can no longer change unnoticed: see `seals.py`.

    `removal` false: there were `rows` entries from `from_id` to `to_id`, and `digest` covers them.
    `removal` true: these entries were removed because of their age, and `digest` covers their
    seals. `mac` covers all other columns and the `mac` of the previous seal.
    """

    n = models.BigIntegerField(primary_key=True)
    removal = models.BooleanField(default=False)
    from_id = models.BigIntegerField()
    to_id = models.BigIntegerField()
    rows = models.IntegerField()
    form = models.SmallIntegerField(help_text="Which text of an entry was digested")
    digest = models.BinaryField(max_length=32)
    prev = models.BinaryField(max_length=32)
    key_id = models.CharField(max_length=8)
    mac = models.BinaryField(max_length=32)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            # Readers: the trigger on entries, and the sealing.
            models.UniqueConstraint(fields=["removal", "to_id"], name="sealed_once"),
            models.CheckConstraint(
                condition=Q(from_id__lte=models.F("to_id")), name="seal_is_range"
            ),
        ]


class AuditCheck(models.Model):
    """One verification of all entries and seals; `finished_at` is null until it is done."""

    asked_at = models.DateTimeField(db_default=Now())
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    finished_at = models.DateTimeField(null=True)
    seals = models.BigIntegerField(default=0)
    entries = models.BigIntegerField(default=0)
    removed = models.BigIntegerField(default=0)
    unsealed = models.BigIntegerField(default=0)
    unknown_key = models.BigIntegerField(default=0, help_text="Seals made with another key")
    trouble = models.JSONField(default=list, help_text="What is wrong, in words")
    head = models.CharField(max_length=90, default="", blank=True, help_text="N:MAC of the end")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["asked_by"],
                condition=Q(finished_at__isnull=True),
                nulls_distinct=False,
                name="one_open_check_of_person",
            )
        ]
        indexes = [models.Index(fields=["-asked_at"], name="check_latest")]


class AuditReview(models.Model):
    """A confirmation by a person that they reviewed the entries of a month."""

    month = models.DateField(help_text="Its first day")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    note = models.TextField(default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["month", "by"], name="month_reviewed_once")]
