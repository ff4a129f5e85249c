"""Unmatched results and the orders they may belong to."""

from __future__ import annotations

from typing import Final, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models

from backoffice.mirror.models import MirrorModel

PENDING_REVIEW = "pending_customer_review"
"""Status of a result that staff of the clinic must decide."""
PENDING_SERVICE_REVIEW = "pending_ops_review"
RESOLVED = ("resolved", "matched")
LIST_FILTER_COLUMNS: Final = ("lab_slug", "decision_code", "interpretation", "missing_since")
"""The columns by which the list is filtered, besides times."""


class UnmatchedResultQuerySet(models.QuerySet["UnmatchedResult"]):
    def pending(self) -> Self:
        """Return the results that staff of the clinic must decide."""
        return self.filter(missing_since=None, status=PENDING_REVIEW)


class UnmatchedResult(MirrorModel):
    """A result as it was received, and the decision about it."""

    id = models.UUIDField(primary_key=True)
    status = models.TextField()
    decision_code = models.TextField(help_text="Why it was not matched by itself")
    sub_reason_codes = ArrayField(models.TextField(), default=list)
    reason = models.TextField(default="", help_text="The service's words for the reviewer")
    first_name = models.TextField(default="")
    last_name = models.TextField(default="")
    dob = models.DateField(null=True)
    gender = models.TextField(default="")
    lab_slug = models.TextField(default="")
    lab_name = models.TextField(default="")
    markers = ArrayField(models.TextField(), default=list)
    interpretation = models.TextField(null=True)
    result_status = models.TextField(null=True)
    note = models.TextField(null=True)
    resolution_action = models.TextField(null=True)
    resolved_user_id = models.UUIDField(null=True)
    resolved_order_id = models.UUIDField(null=True)
    allowed_actions = ArrayField(models.TextField(), default=list)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    reviewed_at = models.DateTimeField(null=True)

    objects = UnmatchedResultQuerySet.as_manager()

    class Meta:
        indexes = [
            # Reader: the list, a tab per status. Pending results are few, whatever their sort
            models.Index(fields=["status", "created_at", "id"], name="unmatched_by_status"),
            # Reader: the tab of decided results, which grows forever, by each sort. With the other
            # columns, a filter is decided inside the index
            models.Index(
                fields=["created_at", "id", *LIST_FILTER_COLUMNS],
                condition=models.Q(status__in=RESOLVED),
                name="unmatched_decided_received",
            ),
            models.Index(
                fields=["reviewed_at", "id", "created_at", *LIST_FILTER_COLUMNS],
                condition=models.Q(status__in=RESOLVED),
                name="unmatched_decided_reviewed",
            ),
        ]

    @property
    def is_pending(self) -> bool:
        return self.status == PENDING_REVIEW and self.missing_since is None


class Candidate(models.Model):
    """A patient, or one of a patient's orders, that the result may belong to."""

    pk = models.CompositePrimaryKey("result_id", "position")
    result = models.ForeignKey(
        UnmatchedResult,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="candidates",
    )
    position = models.PositiveSmallIntegerField()
    user_id = models.UUIDField(null=True)
    order_id = models.UUIDField(null=True)
    order_transaction_id = models.UUIDField(null=True)
    candidate_type = models.TextField(default="")
    last_status = models.TextField(null=True)
    confidence_level = models.TextField(default="")
    reasons = ArrayField(models.TextField(), default=list)
