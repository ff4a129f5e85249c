"""Records of API writes: idempotency outcomes, placed orders, unmatched results."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class IdempotentOutcome(models.Model):
    """The answer to the first executed request under a key (orders.md 2.1)."""

    team = models.ForeignKey("Team", models.CASCADE)
    call = models.CharField(max_length=40)
    key = models.CharField(max_length=255)
    status = models.SmallIntegerField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "call", "key"], name="idempotent_once")
        ]


class Placement(models.Model):
    """The request by which a team placed an order; the order record shows a part of it."""

    order = models.OneToOneField("Order", models.CASCADE, primary_key=True)
    clinical_notes = models.TextField(null=True)
    aoe_answers = models.JSONField(default=list)
    consents = models.JSONField(default=list)


class UnmatchedResult(models.Model):
    """A result that waits to be matched with an order (orders.md 9)."""

    id = models.UUIDField(primary_key=True)
    team = models.ForeignKey("Team", models.CASCADE)
    lab = models.ForeignKey("Lab", models.PROTECT)
    lab_test = models.ForeignKey("LabTest", models.PROTECT)
    lab_account = models.ForeignKey("LabAccount", models.PROTECT, null=True)
    sample_id = models.CharField(max_length=40, null=True)
    status = models.CharField(max_length=24)
    decision_code = models.CharField(max_length=40)
    sub_reason_codes = ArrayField(models.CharField(max_length=40), default=list)
    reason = models.CharField(max_length=300)
    patient = models.JSONField(null=True)
    interpretation = models.CharField(max_length=12)
    result_status = models.CharField(max_length=12)
    note = models.TextField(null=True)
    resolution_action = models.CharField(max_length=12, null=True)
    resolved_user_id = models.UUIDField(null=True)
    resolved_order_id = models.UUIDField(null=True)
    allowed_actions = ArrayField(models.CharField(max_length=12), default=list)
    candidate_groups = models.JSONField(default=list)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    reviewed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["team", "created_at"], name="unmatched_list")]


class UnmatchedRun(models.Model):
    """A run of the test harness that makes an unmatched result."""

    id = models.UUIDField(primary_key=True)
    team = models.ForeignKey("Team", models.CASCADE)
    key = models.CharField(max_length=255)
    body = models.JSONField()
    status = models.CharField(max_length=12)
    error = models.CharField(max_length=300, null=True)
    result = models.ForeignKey(UnmatchedResult, models.CASCADE, null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "key"], name="unmatched_run_once")]
