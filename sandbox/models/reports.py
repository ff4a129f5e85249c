"""Lab report parsing (errors-and-limits.md 7). The files themselves are not kept."""

from django.db import models


class ReportJob(models.Model):
    """A parsing job. Its present step began at `since` and takes `dwell` at speed 1; without
    `dwell` there is no further step. `outcome` is how it will end: `completed` or the reason of a
    failure."""

    id = models.UUIDField(primary_key=True)
    team = models.ForeignKey("Team", models.CASCADE)
    user = models.ForeignKey("User", models.CASCADE)
    status = models.CharField(max_length=16, default="upload_pending")
    failure_reason = models.CharField(max_length=24, null=True)
    data = models.JSONField(null=True)
    needs_human_review = models.BooleanField(default=False)
    is_reviewed = models.BooleanField(default=False)
    kind = models.CharField(max_length=8)
    pages = models.SmallIntegerField()
    digest = models.CharField(max_length=64)
    outcome = models.CharField(max_length=24)
    since = models.DateTimeField()
    dwell = models.DurationField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(status__in=["upload_pending", "started", "completed", "failed"]),
                name="report_job_status",
            ),
            models.CheckConstraint(
                condition=models.Q(status="completed", data__isnull=False)
                | (~models.Q(status="completed") & models.Q(data__isnull=True)),
                name="report_job_data_when_completed",
            ),
        ]
        indexes = [
            models.Index(fields=["team", "status"], name="report_job_count"),
            models.Index(
                fields=["since"],
                condition=models.Q(dwell__isnull=False),
                name="report_job_open",
            ),
        ]


class ReportSettings(models.Model):
    """The single row (id 1) with settings of the control path: whether teams may ask for human
    review, and the outcomes of the next jobs."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    review_enabled = models.BooleanField(default=True)
    next_outcomes = models.JSONField(default=list)
