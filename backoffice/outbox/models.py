"""Commands for the service, and their attempts."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from backoffice.core.encryption.encrypted_fields import EncryptedJSONField


class CommandRecords(models.QuerySet["CommandRecord"]):
    def open(self) -> CommandRecords:
        return self.filter(state__in=CommandRecord.OPEN)

    def with_users(self) -> CommandRecords:
        """Read requester and decider in the same query."""
        return self.select_related("requested_by", "decided_by")

    def done_since(self, moment: datetime) -> CommandRecords:
        return self.filter(state=CommandRecord.State.DONE, finished_at__gt=moment)

    def about(self, subject_type: str, subject_id: object) -> CommandRecords:
        """Return the commands on this record, newest first."""
        commands = self.filter(subject_type=subject_type, subject_id=str(subject_id))
        return commands.select_related("requested_by").order_by("-requested_at")


class CommandRecord(models.Model):
    """One command for the service, with all state of its delivery: see `backoffice.outbox`.

    `payload` has the command's own fields. Only one command with the same `lock` may be open.
    `attempts` counts sendings; a person's decision names the attempt they saw. `doubted`: the
    outcome of a sending was unknown once, so a refusal after it proves nothing. `keys` counts the
    idempotency keys it was sent with. The service repeats a stored failure until its key expires.
    `late_after`: the command was carried out after a person or a lookup had closed it.
    """

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("Waiting to be sent")
        SENDING = "sending", gettext_lazy("Being sent")
        UNCERTAIN = "uncertain", gettext_lazy("Outcome unknown, being checked")
        UNDECIDED = "undecided", gettext_lazy("Needs your decision")
        DONE = "done", gettext_lazy("Done")
        REFUSED = "refused", gettext_lazy("Refused")
        WITHDRAWN = "withdrawn", gettext_lazy("Withdrawn")
        GIVEN_UP = "given_up", gettext_lazy("Closed, not resent")

    OPEN = (State.WAITING, State.SENDING, State.UNCERTAIN, State.UNDECIDED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    patient_id = models.UUIDField(null=True)
    lock = models.TextField(default="", blank=True)
    payload = EncryptedJSONField()
    form_id = models.UUIDField(unique=True, help_text="One per form shown: a second send is none")
    form_url = models.TextField(default="", blank=True)
    form_data = EncryptedJSONField(default=dict, help_text="What stood in the form, as typed")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    requested_at = models.DateTimeField(db_default=Now())
    request_id = models.CharField(
        max_length=32, default="", db_default="", help_text="Of the page's request that asked"
    )
    reason = models.TextField(default="", blank=True)
    idempotency_key = models.UUIDField()
    keyed_at = models.DateTimeField(null=True, help_text="When this key was first sent")
    keys = models.PositiveSmallIntegerField(default=1)
    state = models.CharField(max_length=12, choices=State, default=State.WAITING)
    due_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(default=0)
    looks = models.PositiveSmallIntegerField(default=0)
    doubted = models.BooleanField(default=False)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    first_sent_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    settle_until = models.DateTimeField(
        null=True, help_text="Until then a slow sending may still arrive"
    )
    hindrance = models.TextField(default="", blank=True, help_text="Why it still waits")
    refusal = models.TextField(default="", blank=True, help_text="The service's words, or ours")
    refusal_fields = models.JSONField(default=list)
    status = models.PositiveSmallIntegerField(null=True, help_text="HTTP status of the refusal")
    found = models.JSONField(default=list, help_text="What may be what was asked for: id, words")
    remote_id = models.TextField(default="", blank=True)
    done_url = models.TextField(default="", blank=True)
    confirmed_by = models.CharField(
        max_length=10, default="", blank=True, help_text="answer, look-up, person"
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    decision = models.CharField(max_length=10, default="", blank=True)
    finished_at = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True, help_text="Last look-up after it had ended")
    late_after = models.CharField(
        max_length=12,
        default="",
        db_default="",
        blank=True,
        help_text="It happened after it had ended like this: given_up or refused",
    )

    objects = CommandRecords.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lock"],
                condition=Q(state__in=["waiting", "sending", "uncertain", "undecided"])
                & ~Q(lock=""),
                name="one_open_command",
            )
        ]
        indexes = [
            # Reader: outbox.delivery
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["waiting", "sending", "uncertain", "undecided"]),
                name="command_due",
            ),
            # Readers: the status strip on a record's page; the list, filtered by a record
            models.Index(
                fields=["subject_id", "subject_type", "-requested_at"], name="command_of_record"
            ),
            # Readers: the commands on a patient's records; the list, filtered by a patient
            models.Index(
                fields=["patient_id", "-requested_at"],
                condition=Q(patient_id__isnull=False),
                name="command_of_patient",
            ),
            # Readers: tabs, filters and sorts of the list (outbox.command_list)
            models.Index(fields=["-requested_at", "id"], name="command_newest"),
            models.Index(fields=["requested_by", "-requested_at", "id"], name="command_of_person"),
            models.Index(fields=["state", "requested_at", "id"], name="command_in_state"),
            models.Index(fields=["kind", "requested_at", "id"], name="command_of_kind"),
            # Reader: team.notifications. A request may have waited for weeks before it was refused.
            models.Index(
                fields=["finished_at"],
                condition=Q(state="refused"),
                name="command_refused_lately",
            ),
            # Reader: outbox.late_outcomes, for ended commands that may have been carried out
            models.Index(
                fields=["due_at"],
                condition=Q(state="given_up") | Q(state="refused", doubted=True),
                name="command_followed",
            ),
            # Readers: team.notifications and a command's page
            models.Index(
                fields=["finished_at"],
                condition=~Q(late_after=""),
                name="command_happened_late",
            ),
            # Reader: patients.commands.follow_resolved_payors
            models.Index(
                fields=["finished_at"],
                condition=Q(confirmed_by="person"),
                name="command_by_person",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"

    @property
    def is_open(self) -> bool:
        return self.state in self.OPEN


class CommandAttempt(models.Model):
    """One sending or lookup of a command: times and outcome, no content."""

    command = models.ForeignKey(CommandRecord, on_delete=models.CASCADE, related_name="history")
    phase = models.CharField(max_length=10, help_text="send, look up")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_default=Now())
    outcome = models.CharField(max_length=12)
    status = models.PositiveSmallIntegerField(null=True)
    trace_id = models.CharField(max_length=64, default="", blank=True)
