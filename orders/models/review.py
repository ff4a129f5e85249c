"""Versions of results, sign-offs, acknowledgements and calls: rows that are added, never changed.

`ResultVersion`, `Signature`, `CriticalAcknowledgement` and `CriticalCall` are append-only: triggers
reject every change (`orders/sql/review_records.sql`). `Review` is derived from them: triggers
compute it again whenever one of them gets a row. So there is no flag that a writer could forget.
"""

from __future__ import annotations

from typing import Final

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from backoffice.accounts.models import User
from backoffice.core.models import FastModel
from patients.identity_comparison import Agreement
from patients.models import mirrored_patient

PARTIAL: Final = "partial"
FINAL: Final = "final"
CORRECTED: Final = "corrected"

SIGNED: Final = "signed"
SEEN: Final = "acknowledged"
UNDONE: Final = "undone"

READ_BACK: Final = "confirmed_read_back"
NO_READ_BACK: Final = "reached_no_read_back"
NOT_REACHED: Final = "not_reached"

RANKS: Final = ("critical", "abnormal", "corrected", "unknown", "normal", "partial", "seen")
"""Places in the queue, most urgent first. `seen`: partial results that were acknowledged.

Results that are not interpreted have the rank of abnormal ones. Their own rank (3) is obsolete.
"""
KINDS: Final = (PARTIAL, FINAL, CORRECTED)
"""Known kinds of versions; any other is `unknown`."""
SOMEBODY_ELSE: Final = "somebody else"
"""Place of a normal result that names another person. It has the rank of abnormal results."""
IN_QUEUE: Final = Q(version__gt=F("signed"))
OPEN_CRITICAL: Final = Q(critical_since__isnull=False) & (
    Q(acknowledged__lt=F("critical_since")) | Q(called__lt=F("critical_since"))
)
OPEN: Final = IN_QUEUE | OPEN_CRITICAL
"""Open results: staff still have to do something. All others are closed."""


def _order() -> models.ForeignKey[models.Model, models.Model]:
    """Return the field for a row's order, without a constraint: the mirror may get it later."""
    return models.ForeignKey(
        "orders.Order",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )


def _staff() -> models.ForeignKey[User, User]:
    return models.ForeignKey(User, on_delete=models.PROTECT, db_index=False, related_name="+")


class ResultVersion(FastModel):
    """A result as received, stored whenever it differs from the version before.

    Times stamped by the lab do not count as a difference. `critical` holds the critical values,
    `critical_since` the number of the version that first had exactly these.
    """

    pk = models.CompositePrimaryKey("order_id", "number")
    order = _order()
    number = models.PositiveIntegerField()
    received_at = models.DateTimeField(db_default=Now())
    kind = models.TextField(help_text="partial, final, corrected or unknown")
    interpretation = models.TextField(null=True)
    has_uninterpreted = models.BooleanField(
        default=False, db_default=False, help_text="The head or a line is not interpreted"
    )
    returned = models.PositiveIntegerField(default=0)
    missing = models.PositiveIntegerField(default=0)
    critical = models.JSONField(default=list)
    critical_since = models.PositiveIntegerField(null=True)
    digest = models.BinaryField(help_text="Of what tells two versions apart")
    content = models.JSONField(help_text="Head and lines, without what was not given")

    def __str__(self) -> str:
        return f"version {self.number} of the result of order {self.order_id}"


class Review(FastModel):
    """The state of the review of an order's result. Derived by the database (see `sql/`).

    Application code never writes it, except `identity` (`orders.rules.result_identity`). The
    numbers are version numbers. 0 is a result that was announced as critical and not read yet,
    −1 is none. A review is in the queue while `version` is greater than `signed`.
    """

    order = models.OneToOneField(
        "orders.Order",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        primary_key=True,
        related_name="review",
    )
    user = mirrored_patient("reviews")
    lab_slug = models.TextField(null=True)
    version = models.IntegerField(default=-1)
    kind = models.TextField(default="")
    rank = models.SmallIntegerField(default=0, help_text="Place in `RANKS`")
    interpretation = models.TextField(
        default="", db_default="", help_text="Of the newest version, raised by its lines"
    )
    has_uninterpreted = models.BooleanField(default=False, db_default=False)
    since = models.DateTimeField(db_default=Now(), help_text="Receipt of the newest version")
    identity = models.TextField(
        default="", db_default="", help_text="same, different or unknown: the person on the result"
    )
    signed = models.IntegerField(default=-1)
    signer = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    seen = models.IntegerField(default=-1, help_text="Partial version that was acknowledged")
    critical_since = models.IntegerField(null=True)
    acknowledged = models.IntegerField(default=-1)
    called = models.IntegerField(default=-1, help_text="Version somebody was reached about")
    next_call_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Reader: the queue
            models.Index(
                fields=["rank", "since", "order"], condition=IN_QUEUE, name="review_queue"
            ),
            # Reader: the queue of one lab
            models.Index(
                fields=["lab_slug", "rank", "since", "order"],
                condition=IN_QUEUE,
                name="review_queue_of_lab",
            ),
            # Readers: the queue of one patient, the patient's page
            models.Index(fields=["user", "-since"], name="review_of_patient"),
            # Reader: `mine`, results a clinician signed in an earlier version
            models.Index(
                fields=["signer", "rank", "since"],
                condition=IN_QUEUE & Q(signer__isnull=False),
                name="review_again",
            ),
            # Readers: the list of all results by time of receipt, and by urgency. The columns after
            # the key are filters, which PostgreSQL applies inside the index.
            models.Index(
                fields=["-since", "-order", "lab_slug", "rank", "signer"], name="review_newest"
            ),
            models.Index(
                fields=["rank", "since", "order", "lab_slug", "signer"], name="review_by_urgency"
            ),
            # Reader: the same list, of one lab
            models.Index(fields=["lab_slug", "-since", "-order"], name="review_of_lab"),
            # Reader: the same list, by who signed
            models.Index(fields=["signer", "-since", "-order"], name="review_signed_by"),
            # Reader: the same list, of results that name somebody else
            models.Index(
                fields=["-since", "-order"],
                condition=Q(identity=Agreement.DIFFERENT),
                name="review_of_somebody_else",
            ),
            # Readers: open_criticals, and the counts on every page
            models.Index(fields=["since"], condition=OPEN_CRITICAL, name="review_open_critical"),
        ]

    def __str__(self) -> str:
        return f"review of order {self.pk}"

    @property
    def in_queue(self) -> bool:
        return self.version > self.signed

    @property
    def is_critical(self) -> bool:
        return self.critical_since is not None

    @property
    def is_acknowledged(self) -> bool:
        return self.critical_since is None or self.acknowledged >= self.critical_since

    @property
    def names_somebody_else(self) -> bool:
        return self.identity == Agreement.DIFFERENT

    @property
    def is_called(self) -> bool:
        return self.critical_since is None or self.called >= self.critical_since

    @property
    def place(self) -> str:
        """The place in the queue: a value of `RANKS`, or SOMEBODY_ELSE."""
        rank = RANKS[self.rank]
        if rank != "abnormal" or self.interpretation == "abnormal":
            return rank
        is_read = self.interpretation == "normal" and self.kind in KINDS
        return SOMEBODY_ELSE if is_read and self.names_somebody_else else "unknown"


class ReviewTally(models.Model):
    """Changes of the number of waiting results. The sum is exact at any time.

    Each writer adds a row, so two writers never wait for each other.
    """

    counted = models.TextField()
    delta = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.delta:+} {self.counted}"


class Signature(models.Model):
    """A sign-off of a version, an acknowledgement of a partial one, or the undo of either."""

    order = _order()
    version = models.PositiveIntegerField()
    kind = models.TextField(help_text="signed, acknowledged or undone")
    by = _staff()
    at = models.DateTimeField(db_default=Now(), help_text="Stamped by the database")
    note = models.TextField(default="")
    tells = models.TextField(default="", help_text="Who will tell the patient")
    delegated_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, db_index=False, related_name="+"
    )
    is_identity_confirmed = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The result names somebody else, and the person said that it is right",
    )
    undoes = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, related_name="undone"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=UNDONE, undoes__isnull=False)
                | Q(kind__in=[SIGNED, SEEN], undoes__isnull=True),
                name="undone_names_what",
            )
        ]
        indexes = [models.Index(fields=["order", "version"], name="signature_of_order")]

    def __str__(self) -> str:
        return f"{self.kind}: version {self.version} of order {self.order_id}"


class CriticalAcknowledgement(models.Model):
    """An acknowledgement of critical values. The server sets values, person and time."""

    order = _order()
    version = models.PositiveIntegerField()
    by = _staff()
    at = models.DateTimeField(db_default=Now(), help_text="Stamped by the database")
    values = models.JSONField(default=list)

    class Meta:
        indexes = [models.Index(fields=["order", "at"], name="acknowledged_of_order")]

    def __str__(self) -> str:
        return f"critical result of order {self.order_id} acknowledged"


class CriticalCall(models.Model):
    """A call about critical values, made or tried, by staff or by the service's physicians."""

    order = _order()
    version = models.PositiveIntegerField()
    by = _staff()
    at = models.DateTimeField(db_default=Now(), help_text="Stamped by the database")
    values = models.JSONField(default=list)
    recipient = models.TextField()
    outcome = models.TextField()
    note = models.TextField(default="")
    next_attempt_at = models.DateTimeField(null=True)
    made_by_service_network = models.BooleanField(default=False)
    source = models.TextField(default="", help_text="How we know of a call we did not make")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(outcome=NOT_REACHED) | Q(next_attempt_at__isnull=False),
                name="not_reached_is_tried_again",
            ),
            models.CheckConstraint(
                condition=Q(outcome__in=[READ_BACK, NO_READ_BACK, NOT_REACHED]),
                name="call_has_an_outcome",
            ),
        ]
        indexes = [models.Index(fields=["order", "at"], name="critical_calls_of_order")]

    def __str__(self) -> str:
        return f"call about order {self.order_id}: {self.outcome}"


class Delegation(models.Model):
    """A clinician's permission for a colleague to sign one result, or all normal final ones."""

    by = _staff()
    to = models.ForeignKey(User, on_delete=models.PROTECT, db_index=False, related_name="+")
    order = models.ForeignKey(
        "orders.Order",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="+",
    )
    until = models.DateTimeField()
    at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        # Reader: whether somebody may sign
        indexes = [models.Index(fields=["to", "until"], name="delegation_to")]

    def __str__(self) -> str:
        return f"delegation {self.pk}"
