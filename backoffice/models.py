"""Tables every app stands on: staff, sync runs, due look-ups, commands, unknown values."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from typing import Any, Final, Self

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.base import ModelState
from django.db.models.functions import Now

from backoffice.sealing import SealedJSON, SealedText


class User(AbstractUser):
    """A member of staff or a service account. Roles are group names (see `access.py`)."""

    time_zone = models.CharField(max_length=64, default="UTC", help_text="IANA zone name")
    theme = models.CharField(
        max_length=5, default="", db_default="", blank=True, help_text="light, dark; empty: system"
    )
    density = models.CharField(
        max_length=8, default="default", db_default="default", help_text="compact, default, touch"
    )
    single_keys = models.BooleanField(
        default=True, db_default=True, help_text="Shortcuts of one key are on"
    )
    first_password_until = models.DateTimeField(
        null=True, help_text="Their password is one they were given: see `first_passwords.py`"
    )

    def get_full_name(self) -> str:
        """First and last name; the log-in name of who has none."""
        return super().get_full_name() or self.get_username()

    def set_password(self, raw_password: str | None) -> None:
        """One of their own, unless `first_passwords.give` says otherwise."""
        super().set_password(raw_password)
        self.first_password_until = None

    def check_password(self, raw_password: str | None) -> bool:
        """Django hashes it anew by `set_password` where its hash is of older parameters."""
        until = self.first_password_until
        fits = super().check_password(raw_password)
        self.first_password_until = until
        return fits


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
            found = json.loads(self.record)
        except (ValueError, RecursionError):
            return {}
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def pretty(self) -> str:
        """The record indented for reading, or as it is when it cannot be read."""
        try:
            return json.dumps(json.loads(self.record), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return self.record


class Installation(models.Model):
    """The one row that says whose database this is: see `installation.py`.

    `secret` is random: that it opens shows that the keys are the right ones, and what must be
    compared without being told is compared by digests under it.
    """

    id = models.UUIDField(primary_key=True)
    environment = models.CharField(max_length=40, help_text="Of the service, such as sandbox us")
    secret = SealedText()
    made_at = models.DateTimeField(db_default=Now())


class SyncRun(models.Model):
    """One walk over a list of the service. The row is the work: see `sync.py`."""

    class State(models.TextChoices):
        DUE = "due", "Due"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    resource = models.CharField(max_length=40)
    full = models.BooleanField(help_text="A sweep over everything; otherwise what changed")
    state = models.CharField(max_length=10, choices=State, default=State.DUE)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    window_start = models.DateTimeField(null=True, help_text="Updated since; null for all")
    server_date = models.DateTimeField(null=True, help_text="Service's clock at the first page")
    checkpoint = models.JSONField(default=dict, help_text="Where to resume")
    due_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(default=0)
    fence = models.BigIntegerField(default=0, help_text="Grows with each claim; guards writes")
    lease_until = models.DateTimeField(null=True)
    total = models.BigIntegerField(null=True, help_text="Rows the service says it has")
    fetched = models.BigIntegerField(default=0)
    created = models.BigIntegerField(default=0)
    changed = models.BigIntegerField(default=0)
    unchanged = models.BigIntegerField(default=0)
    older = models.BigIntegerField(default=0)
    unseen = models.BigIntegerField(default=0)
    unreadable = models.BigIntegerField(default=0)
    drifted = models.BigIntegerField(default=0)
    error = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["resource", "full"],
                condition=Q(state__in=["due", "running"]),
                name="one_open_run_of_a_kind",
            )
        ]
        indexes = [
            models.Index(fields=["resource", "-created_at"], name="run_latest_of_resource"),
            # Reader: sync.claim
            models.Index(
                fields=["due_at"], condition=Q(state__in=["due", "running"]), name="run_claimable"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.resource} {'full' if self.full else 'incremental'} {self.state}"


class Drift(models.Model):
    """A difference between mirror and service that a sweep found and repaired, or a change at the
    service that is not to be expected."""

    class Kind(models.TextChoices):
        MISSING_LOCAL = "missing_local", "Was missing here"
        MISSING_REMOTE = "missing_remote", "No longer at the service"
        STALE = "stale", "Was out of date here"
        SCHEMA = "schema", "Could not be read"
        HISTORY_CONFLICT = "history_conflict", "History was rewritten"
        MOVED = "moved", "Went to another patient"
        REGRESSED = "regressed", "Went back in its life"

    run = models.ForeignKey(SyncRun, on_delete=models.CASCADE, null=True, related_name="drifts")
    resource = models.CharField(max_length=40)
    key = models.TextField()
    kind = models.CharField(max_length=20, choices=Kind)
    detail = models.TextField(default="", blank=True)
    found_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["-found_at"], name="drift_latest")]


class Lookup(models.Model):
    """One record that is read by its own call, and when it is to be read next.

    `due_at` null means nothing is expected to change. `generation` grows with every new reason to
    look, so that an answer asked for before the reason does not clear it.
    """

    pk = models.CompositePrimaryKey("kind", "key")
    kind = models.CharField(max_length=30)
    key = models.TextField()
    due_at = models.DateTimeField(null=True, db_default=Now())
    generation = models.BigIntegerField(default=1, db_default=1)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    looked_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=300, default="", db_default="", blank=True)

    class Meta:
        indexes = [
            # Reader: sync.drain
            models.Index(
                fields=["kind", "due_at"], condition=Q(due_at__isnull=False), name="lookup_due"
            ),
            models.Index(fields=["kind"], condition=~Q(error=""), name="lookup_failing"),
        ]


class CommandRecords(models.QuerySet["CommandRecord"]):
    def open(self) -> CommandRecords:
        return self.filter(state__in=CommandRecord.OPEN)

    def about(self, subject_type: str, subject_id: object) -> CommandRecords:
        """Newest first."""
        found = self.filter(subject_type=subject_type, subject_id=str(subject_id))
        return found.select_related("requested_by").order_by("-requested_at")


class CommandRecord(models.Model):
    """One thing staff asked of the service, and its way there. The row is the work: see `outbox`.

    `payload` is the command's own fields. `lock` lets only one command about a thing be open.
    `attempts` counts sendings, and what a person decides on names the attempt they saw. `doubted`:
    the outcome of a sending was unknown once, so a refusal after it proves nothing. `keys` counts
    the idempotency keys it was sent with: a failure is kept and answered as long as its key lives.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting to be sent"
        SENDING = "sending", "Being sent"
        UNCERTAIN = "uncertain", "Outcome unknown, being checked"
        UNDECIDED = "undecided", "Needs your decision"
        DONE = "done", "Done"
        REFUSED = "refused", "Refused"
        WITHDRAWN = "withdrawn", "Taken back"
        GIVEN_UP = "given_up", "Given up"

    OPEN = (State.WAITING, State.SENDING, State.UNCERTAIN, State.UNDECIDED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    patient_id = models.UUIDField(null=True)
    lock = models.TextField(default="", blank=True)
    payload = SealedJSON()
    form_id = models.UUIDField(unique=True, help_text="One per form shown: a second send is none")
    form_url = models.TextField(default="", blank=True)
    form_data = SealedJSON(default=dict, help_text="What stood in the form, as typed")
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
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
    decided_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    decision = models.CharField(max_length=10, default="", blank=True)
    finished_at = models.DateTimeField(null=True)

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
            # Reader: outbox.deliver
            models.Index(
                fields=["due_at"],
                condition=Q(state__in=["waiting", "sending", "uncertain", "undecided"]),
                name="command_due",
            ),
            # Reader: the strip on a record's page
            models.Index(
                fields=["subject_type", "subject_id", "-requested_at"], name="command_of_subject"
            ),
            # Reader: what people did to a patient's records
            models.Index(
                fields=["patient_id", "-requested_at"],
                condition=Q(patient_id__isnull=False),
                name="command_of_patient",
            ),
            models.Index(fields=["-requested_at", "id"], name="command_newest"),
            # Readers: tabs of the list
            models.Index(fields=["requested_by", "-requested_at", "id"], name="command_of_person"),
            models.Index(
                fields=["-requested_at", "id"],
                condition=Q(state="refused"),
                name="command_refused",
            ),
            # Reader: patients.commands.carry_on
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
    """One sending or look-up of a command: when, and how it ended. No content."""

    command = models.ForeignKey(CommandRecord, on_delete=models.CASCADE, related_name="history")
    phase = models.CharField(max_length=10, help_text="send, look up")
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_default=Now())
    outcome = models.CharField(max_length=12)
    status = models.PositiveSmallIntegerField(null=True)
    trace_id = models.CharField(max_length=64, default="", blank=True)


class UnknownValue(models.Model):
    """A value of an open enumeration that `vocabulary` has no word for yet.

    `bucket` and `label` are the words that somebody gave it (`vocabulary.given`), and `decision` is
    the number of that decision: it grows with each. `spread_at` is when orders with this status
    were last found in their bucket, `moved` how many were brought there.
    """

    vocabulary = models.CharField(max_length=60)
    value = models.TextField()
    bucket = models.CharField(max_length=20, default="", blank=True)
    label = models.CharField(max_length=80, default="", db_default="", blank=True)
    decision = models.BigIntegerField(default=0, db_default=0)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    spread_at = models.DateTimeField(null=True)
    moved = models.BigIntegerField(default=0, db_default=0)
    sightings = models.BigIntegerField(default=0)
    first_seen = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())
    sample_key = models.TextField(default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["vocabulary", "value"], name="unknown_value_once")
        ]
        indexes = [
            # Readers: session.Staff on every page, vocabulary.given
            models.Index(
                fields=["decision"], condition=Q(decision__gt=0), name="unknown_value_decided"
            ),
            models.Index(fields=["-last_seen", "-id"], name="unknown_value_last_seen"),
        ]

    def __str__(self) -> str:
        return f"{self.vocabulary}: {self.value}"


class UnreadRecord(models.Model):
    """A record the back office could not read into its columns, kept whole."""

    resource = models.CharField(max_length=40)
    key = models.TextField(help_text="The record's id where it could be made out, else its hash")
    path = models.TextField(default="", blank=True)
    reason = models.TextField(default="", blank=True)
    record = SealedText(by="key")
    first_seen = models.DateTimeField(db_default=Now())
    last_seen = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["resource", "key"], name="unread_record_once")
        ]


class Change(models.Model):
    """Rows of one table that one transaction changed, for pages that stand open (`live.py`).

    `xact` is PostgreSQL's number of that transaction: a page knows which of them it has seen.
    `subjects` are the records, patients and orders concerned; null when there were too many.
    """

    xact = models.BigIntegerField()
    topic = models.CharField(max_length=40, help_text="Name of the table")
    rows = models.PositiveIntegerField()
    subjects = ArrayField(models.UUIDField(), null=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["xact"], name="change_since")]


# At the end: these tables stand on the ones above.
from backoffice.accounts.models import (  # noqa: E402
    AccountNews,
    PasswordReset,
    StaffSession,
    Throttle,
)
from backoffice.api.models import ApiToken  # noqa: E402
from backoffice.audit.models import (  # noqa: E402
    AuditCheck,
    AuditEntry,
    AuditReview,
    AuditSeal,
)
from backoffice.lists.models import BulkRow, BulkRun, ListChoice, SavedView  # noqa: E402
from backoffice.team.models import (  # noqa: E402
    Assignment,
    AssignmentChange,
    Contact,
    MailChoice,
    Note,
    Notification,
)
from backoffice.upkeep import Backup, Heartbeat, Hold  # noqa: E402

__all__ = [
    "AccountNews",
    "ApiToken",
    "Assignment",
    "AssignmentChange",
    "AuditCheck",
    "AuditEntry",
    "AuditReview",
    "AuditSeal",
    "Backup",
    "BulkRow",
    "BulkRun",
    "CommandAttempt",
    "CommandRecord",
    "CommandRecords",
    "Contact",
    "Drift",
    "Heartbeat",
    "Hold",
    "Installation",
    "ListChoice",
    "Lookup",
    "MailChoice",
    "Mirrored",
    "Note",
    "Notification",
    "PasswordReset",
    "SavedView",
    "StaffSession",
    "SyncRun",
    "Throttle",
    "UnknownValue",
    "UnreadRecord",
    "User",
]
