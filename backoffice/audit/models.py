"""Audit entries, the seals over them, checks, and reviews.

Rows of entries, seals, and reviews are only added: database triggers refuse updates and deletions
(`audit/sql/append_only.sql`), except of expired entries, which only `retention.py` removes.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class AuditEntryQuerySet(models.QuerySet["AuditEntry"]):
    def of_actor(self, user_id: int | None) -> Self:
        """Return the entries of a person, without the values of changes."""
        return self.filter(actor=user_id).select_related("actor").defer("before", "after")

    def of_same_request(self, entry: AuditEntry) -> Self:
        """Return the other entries of the request of an entry, in order."""
        if not entry.request_id:
            return self.none()
        same_request = self.filter(request_id=entry.request_id).exclude(pk=entry.pk)
        return same_request.select_related("actor").order_by("at", "pk")

    def after_seal(self, seal: AuditSeal | None) -> Self:
        """Return the entries after the last one of a seal; without a seal, all entries."""
        return self.filter(pk__gt=seal.to_id if seal else 0)

    def oldest_id_at(self) -> datetime | None:
        """Return the time of the entry with the lowest id."""
        return self.order_by("pk").values_list("at", flat=True).first()

    def begun_at(self) -> datetime | None:
        """Return the earliest time of an entry."""
        return self.order_by("at", "pk").values_list("at", flat=True).first()


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

    objects = AuditEntryQuerySet.as_manager()

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


class AuditSealQuerySet(models.QuerySet["AuditSeal"]):
    def end_of_chain(self) -> AuditSeal | None:
        return self.order_by("-n").first()

    def latest_of_entries(self) -> AuditSeal | None:
        """Return the seal of the latest entries."""
        return self.filter(removal=False).order_by("-to_id").first()

    def latest_removal(self) -> AuditSeal | None:
        """Return the seal of the latest entries that were removed because of their age."""
        return self.filter(removal=True).order_by("-to_id").first()

    def of_entry(self, entry_id: int) -> AuditSeal | None:
        """Return the seal of an entry; None if it is not sealed yet."""
        seal = self.filter(removal=False, to_id__gte=entry_id).order_by("to_id").first()
        return seal if seal and seal.from_id <= entry_id else None


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

    objects = AuditSealQuerySet.as_manager()

    class Meta:
        constraints = [
            # Readers: the trigger on entries, and the sealing.
            models.UniqueConstraint(fields=["removal", "to_id"], name="sealed_once"),
            models.CheckConstraint(
                condition=Q(from_id__lte=models.F("to_id")), name="seal_is_range"
            ),
        ]


class AuditCheckQuerySet(models.QuerySet["AuditCheck"]):
    def newest_first(self) -> Self:
        return self.select_related("asked_by").order_by("-asked_at")

    def latest_finished(self) -> AuditCheck | None:
        return self.exclude(finished_at=None).order_by("-finished_at").first()


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

    objects = AuditCheckQuerySet.as_manager()

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


class AuditReviewQuerySet(models.QuerySet["AuditReview"]):
    def by_month(self, most: int) -> dict[date, list[AuditReview]]:
        """Return the reviews of the latest months, at most `most`, in the order of signing."""
        reviews: dict[date, list[AuditReview]] = {}
        for review in self.select_related("by").order_by("-month", "at")[:most]:
            reviews.setdefault(review.month, []).append(review)
        return reviews


class AuditReview(models.Model):
    """A confirmation by a person that they reviewed the entries of a month."""

    month = models.DateField(help_text="Its first day")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    note = models.TextField(default="", blank=True)

    objects = AuditReviewQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["month", "by"], name="month_reviewed_once")]
