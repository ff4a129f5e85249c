"""Order counts, activity, and what each user has seen of it.

Counts and activity are written by triggers, in the transaction that changes an order
(`orders/sql/activity.sql`, `orders/sql/order_counts.sql`).
"""

from __future__ import annotations

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models.functions import Now

from backoffice.accounts.models import User
from backoffice.core.models import FastModel


class OrderCount(FastModel):
    """By how much the number of orders in a state changed. The count is the sum over the state.

    Rows are only added, so no writer waits for another. `counts.compact_counts` merges them, and
    `counts.repair` checks them against the orders.
    """

    bucket = models.TextField()
    low_level_status = models.TextField()
    method = models.TextField()
    change = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.change:+} {self.bucket} {self.low_level_status} {self.method}"


class OrderActivity(FastModel):
    """A change of an order that staff are shown on Today.

    It is a step or a move of an order, a visit, a result, or a critical result.

    `transaction` is the transaction that added the row. Ids are assigned before rows are committed.
    So the snapshot that a user has seen decides whether an activity is new to them, never an id or
    a time.
    """

    ORDER, MOVED, VISIT, RESULT, CRITICAL = "order", "moved", "visit", "result", "critical"

    at = models.DateTimeField(db_default=Now(), help_text="When we learned of it")
    transaction = models.BigIntegerField()
    kind = models.CharField(max_length=8)
    order_id = models.UUIDField(null=True)
    patient_id = models.UUIDField(null=True)
    before = models.TextField(default="", db_default="", help_text="Status; empty: first heard of")
    after = models.TextField(default="", db_default="")
    bucket_before = models.TextField(default="", db_default="")
    bucket_after = models.TextField(default="", db_default="")
    start_before = models.DateTimeField(null=True, help_text="Of a visit")
    start_after = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Reader: digest._NEW_SINCE_SNAPSHOT
            models.Index(fields=["transaction"], name="activity_since_snapshot"),
            # Readers: a user's first digest, the hand-over, counts.delete_old_activity
            BrinIndex(fields=["at"], autosummarize=True, name="activity_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.before} > {self.after}"


class SeenActivity(models.Model):
    """How far a user has seen the activity: everything committed in `snapshot`."""

    user = models.OneToOneField(User, on_delete=models.CASCADE, primary_key=True, related_name="+")
    snapshot = models.TextField(help_text="A pg_snapshot")
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"look of user {self.user_id}"


class SeenSubject(FastModel):
    """What a user has seen of a patient, or an order without a patient, after `SeenActivity`."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+", db_index=False)
    about = models.UUIDField()
    snapshot = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "about"], name="seen_once")]

    def __str__(self) -> str:
        return f"seen by user {self.user_id}"
