"""Uploaded reports, parsing jobs of the service, and checks of their results."""

from __future__ import annotations

import uuid
from typing import Final, Self

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from backoffice.accounts.models import User
from backoffice.mirror.models import MirrorModel
from patients.models import mirrored_patient

STORED: Final = "stored"
SENDING: Final = "sending"
UNCERTAIN: Final = "uncertain"
REFUSED: Final = "refused"
GIVEN_UP: Final = "given_up"
PENDING_REVIEW: Final = "pending_review"
COMPLETED: Final = "completed"
FAILED: Final = "failed"

WAITING_FOR_STAFF: Final = (
    Q(state__in=(UNCERTAIN, REFUSED, FAILED))
    | Q(state=COMPLETED, accepted_at=None)
    | Q(state=COMPLETED, changed_since_accepted=True)
)
"""Reports that wait for a staff member."""
IN_PROGRESS: Final = ~Q(state__in=(UNCERTAIN, REFUSED, FAILED, COMPLETED, GIVEN_UP))
"""Reports that wait for a worker or for the service."""
IS_ACCEPTED: Final = Q(accepted_at__isnull=False, changed_since_accepted=False)
"""Reports with an acceptance that still holds."""


class ReportJob(MirrorModel):
    """A parsing job of the service (errors and limits, 7.2 and 7.3).

    The record does not name the patient: `user` comes from our upload or the event. `progress`
    orders the versions of a job; it never goes back.
    """

    id = models.UUIDField(primary_key=True)
    user = mirrored_patient("report_jobs")
    status = models.TextField()
    state = models.TextField(help_text="The status, or pending_review, told by the two flags")
    failure_reason = models.TextField(null=True)
    needs_human_review = models.BooleanField()
    is_reviewed = models.BooleanField()
    progress = models.PositiveSmallIntegerField()
    patient_first_name = models.TextField(null=True)
    patient_last_name = models.TextField(null=True)
    dob = models.TextField(null=True, help_text="As printed on the report: no fixed format")
    gender = models.TextField(null=True)
    lab_name = models.TextField(null=True)
    date_reported = models.TextField(null=True)
    date_collected = models.TextField(null=True)
    specimen_number = models.TextField(null=True)

    class Meta:
        indexes = [
            # Readers: sync.create_missing_reports, the page of an uncertain upload
            models.Index(fields=["user", "-as_of"], name="report_job_of_patient"),
        ]


class ReportResult(models.Model):
    """One value that the service read from a report. `position` is its place in the report."""

    pk = models.CompositePrimaryKey("job_id", "position")
    job = models.ForeignKey(
        ReportJob,
        on_delete=models.CASCADE,
        db_constraint=False,
        db_index=False,
        related_name="results",
    )
    position = models.PositiveSmallIntegerField()
    test_name = models.TextField()
    value = models.TextField(help_text="Text as printed, whatever its type")
    type = models.TextField(null=True)
    units = models.TextField(null=True)
    min_reference_range = models.FloatField(null=True)
    max_reference_range = models.FloatField(null=True)
    interpretation = models.TextField(null=True, help_text="Our reading of the whole row")
    interpretation_received = models.TextField(null=True, help_text="The service's word")
    is_above_max_range = models.BooleanField(null=True)
    is_below_min_range = models.BooleanField(null=True)
    sample_type = models.TextField(null=True)
    measurement_kind = models.TextField(null=True)
    sensitivity = models.TextField(null=True)
    source_panel_name = models.TextField(null=True)
    loinc_match_status = models.TextField(null=True)
    loinc_matches = models.JSONField(default=list)
    reading = models.BinaryField(max_length=16, help_text="Digest of what was read in this row")


class ReportQuerySet(QuerySet["Report"]):
    """Queries for reports."""

    def with_job(self) -> Self:
        """Read the jobs, too, but not their records as received."""
        return self.select_related("job").defer("job__record")


class Report(models.Model):
    """A document of a patient and its delivery to the service.

    Until the service has a job, `state` is stored, sending, uncertain, refused or given_up. Then it
    is the state of the job. `attempts` counts attempts to send it; a person's decision names the
    attempt that they saw. A report without files was uploaded elsewhere.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user = mirrored_patient("reports")
    form_id = models.UUIDField(unique=True, help_text="One per form shown: a second send is none")
    uploaded_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    uploaded_at = models.DateTimeField(db_default=Now())
    needs_human_review = models.BooleanField(default=False)
    state = models.TextField(default=STORED)
    due_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveIntegerField(default=0)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    doubted = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The outcome of a sending is unknown, so a refusal after it proves nothing",
    )
    refusal = models.TextField(default="", blank=True, help_text="The service's words, or ours")
    request_id = models.CharField(
        max_length=32,
        default="",
        db_default="",
        blank=True,
        help_text="Of the page that asked to send it",
    )
    job = models.OneToOneField(
        ReportJob,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        null=True,
        related_name="report",
    )
    earlier_job_ids = ArrayField(models.UUIDField(), default=list)
    accepted_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    accepted_at = models.DateTimeField(null=True)
    accepted_hash = models.BinaryField(max_length=16, null=True, help_text="What was accepted")
    changed_since_accepted = models.BooleanField(
        default=False, help_text="Read anew or corrected: the acceptance no longer holds"
    )

    objects = ReportQuerySet.as_manager()

    class Meta:
        indexes = [
            # Readers: the list, whole and by its sorts
            models.Index(fields=["-uploaded_at", "id"], name="report_newest"),
            models.Index(
                fields=["state", "uploaded_at", "id", "uploaded_by"], name="report_by_state"
            ),
            # Reader: the list of accepted reports by the time of acceptance. With the other
            # columns, a filter is decided inside the index
            models.Index(
                fields=["accepted_at", "id", "uploaded_at", "uploaded_by"],
                condition=IS_ACCEPTED,
                name="report_by_acceptance",
            ),
            # Readers: the first two tabs of the list. They stay short while the number of reports
            # grows
            models.Index(
                fields=["-uploaded_at", "id"], condition=WAITING_FOR_STAFF, name="report_for_us"
            ),
            models.Index(
                fields=["-uploaded_at", "id"], condition=IN_PROGRESS, name="report_under_way"
            ),
            models.Index(fields=["user", "-uploaded_at"], name="report_of_patient"),
            # Readers: intake, the daily limit of a person; the list, its filter by uploader
            models.Index(fields=["uploaded_by", "uploaded_at"], name="report_by_uploader"),
            # Readers: delivery.claim_next, delivery.expire_leases
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=[STORED, SENDING]),
                name="report_claimable",
            ),
        ]

    def __str__(self) -> str:
        return f"report {self.pk}"


class ReportFile(models.Model):
    """A file of a report. `stored_as` is random; `given_name` is only for display."""

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="files")
    position = models.PositiveSmallIntegerField()
    stored_as = models.CharField(max_length=64, unique=True)
    given_name = models.TextField()
    kind = models.CharField(max_length=40, help_text="Media type, from the content")
    size = models.PositiveIntegerField(validators=[MinValueValidator(1)])
    sha256 = models.BinaryField(max_length=32)
    pages = models.PositiveSmallIntegerField(null=True, help_text="Of a PDF")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["report", "position"], name="report_file_place")
        ]
        # Reader: intake, which looks for the same file of a patient
        indexes = [models.Index(fields=["sha256"], name="report_file_same")]


class RowCheck(models.Model):
    """A person's check of one row. Checks are only added; the latest one of a row counts.

    `reading` is the digest of the checked row. If the service parses the row again with another
    result, the check is no longer valid. The parsed row itself is never changed.
    """

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="checks")
    job_id = models.UUIDField()
    position = models.PositiveSmallIntegerField()
    reading = models.BinaryField(max_length=16)
    checked = models.BooleanField()
    corrections = models.JSONField(default=dict, help_text="Columns of the row that are otherwise")
    by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["report", "position", "-id"], name="row_check_latest")]
