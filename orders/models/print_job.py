"""Jobs that print the documents of many orders as one PDF. `printing.py` works on these rows."""

from __future__ import annotations

import uuid
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from backoffice.accounts.models import User
from backoffice.core.encryption.encrypted_fields import EncryptedBinaryField


class PrintJobQuerySet(models.QuerySet["PrintJob"]):
    def leased(self, job: PrintJob, token: uuid.UUID) -> Self:
        """Return the job, if it is open and this token still has its lease."""
        return self.filter(pk=job.pk, lease_token=token, state=PrintJob.State.OPEN)


class PrintPartQuerySet(models.QuerySet["PrintPart"]):
    def waiting(self, job: PrintJob) -> Self:
        """Return the parts that are not fetched yet, in the order of the merged PDF."""
        return self._in_state(job, PrintPart.State.WAITING)

    def fetched(self, job: PrintJob) -> Self:
        return self._in_state(job, PrintPart.State.DONE)

    def left_out(self, job: PrintJob) -> Self:
        return self._in_state(job, PrintPart.State.FAILED)

    def _in_state(self, job: PrintJob, state: str) -> Self:
        return self.filter(job=job, state=state).order_by("position")


class PrintJob(models.Model):
    """A print job of one person. `done` and `failed` are numbers of parts.

    Fetched contents are encrypted. They are deleted at `expires_at` or when the job is canceled.
    """

    class State(models.TextChoices):
        OPEN = "open", gettext_lazy("In progress")
        DONE = "done", gettext_lazy("Ready")
        FAILED = "failed", gettext_lazy("Failed")
        CANCELED = "canceled", gettext_lazy("Canceled")
        EXPIRED = "expired", gettext_lazy("Deleted")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    form_id = models.UUIDField(help_text="One per form shown: a second send is none")
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(db_default=Now())
    kinds = ArrayField(models.TextField(), help_text="Slugs of `kinds.KINDS`, in their order")
    labels = models.PositiveSmallIntegerField(help_text="Specimen labels of each order")
    collected_at = models.DateTimeField(
        null=True, help_text="On the labels of orders of which no collection time is known"
    )
    new_sheet = models.BooleanField(help_text="Each document begins on a new sheet")
    query = models.JSONField(default=dict, help_text="The list as it was left")
    state = models.TextField(choices=State.choices, default=State.OPEN)
    words = models.TextField(default="", blank=True, help_text="Why it failed")
    orders = models.PositiveIntegerField()
    total = models.PositiveIntegerField()
    done = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes of the parts so far")
    pages = models.PositiveIntegerField(null=True, help_text="Of the merged PDF")
    due_at = models.DateTimeField(db_default=Now())
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)

    objects = PrintJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["asked_by", "form_id"], name="print_job_of_a_form")
        ]
        indexes = [
            # Reader: printing._claim_job
            models.Index(fields=["due_at"], condition=Q(state="open"), name="print_job_open"),
            # Reader: the print jobs of one person
            models.Index(fields=["asked_by", "-asked_at"], name="print_job_of_person"),
            # Reader: printing.expire
            models.Index(
                fields=["expires_at"],
                condition=Q(expires_at__isnull=False),
                name="print_job_expiring",
            ),
        ]

    def __str__(self) -> str:
        return f"print job {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def has_file(self) -> bool:
        return self.state == self.State.DONE and self.pages is not None


class PrintPart(models.Model):
    """One document of one order. `words` says why there is none."""

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("Waiting")
        DONE = "done", gettext_lazy("Done")
        FAILED = "failed", gettext_lazy("Left out")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    job = models.ForeignKey(
        PrintJob, on_delete=models.CASCADE, db_index=False, related_name="parts"
    )
    position = models.PositiveIntegerField(help_text="Its place in the merged PDF")
    order_id = models.UUIDField()
    patient_id = models.UUIDField(null=True)
    kind = models.TextField()
    state = models.TextField(choices=State.choices, default=State.WAITING)
    words = models.TextField(default="", blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_default=Now())
    content: Any = EncryptedBinaryField(null=True)

    objects = PrintPartQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "position"], name="print_part_place")]

    def __str__(self) -> str:
        return f"part {self.position} of print job {self.job_id}"


class PrintFile(models.Model):
    """The merged PDF of a job. It has the primary key of the job."""

    id = models.UUIDField(primary_key=True)
    job = models.OneToOneField(PrintJob, on_delete=models.CASCADE, related_name="file")
    content: Any = EncryptedBinaryField()

    def __str__(self) -> str:
        return f"file of print job {self.job_id}"
