"""Tables of the inbox: events of the service as received, and refused deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import models
from django.db.models import Case, F, Q, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Length, Now
from django.utils.translation import gettext_lazy

from backoffice.core.encryption import cipher
from backoffice.core.encryption.encrypted_fields import EncryptedBinaryField

SMALL_BODY_BYTES = 32_768
"""Most bytes of a body that a list parses for the time of the change."""


class EventQuerySet(models.QuerySet["Event"]):
    def for_list(self) -> EventQuerySet:
        """Return events without their bodies, but with small ones as `small_body`.

        Small bodies have the time of the change.
        """
        rows = self.defer("body", "body_digest").alias(size=Length("body"))
        small_body = When(size__lte=SMALL_BODY_BYTES, then=F("body"))
        return rows.annotate(small_body=Case(small_body, output_field=models.BinaryField()))

    def first_of_types(
        self,
        types: Sequence[str],
        between: tuple[int, int],
        limit: int,
        *,
        descending: bool | None = None,
    ) -> EventQuerySet:
        """Return the first `limit` of these events, by id, that are of one of several types.

        Their ids are between the two of `between`. Without `descending` they are any `limit` such
        events, to count them.

        The index on type has the events of one type in order. With several types in one condition,
        PostgreSQL would read along the ids instead. A page of types that came long before all
        others would take half a second (`docs/decisions/keyset-paging.md`).
        """
        sign, direction = ("-", "DESC") if descending else ("", "ASC")
        # `kind.name` is a column of the surrounding statement. The conditions are a range of the
        # index: with an equality on the type, PostgreSQL may choose to read along the ids.
        key = "(webhooks_event.event_type, webhooks_event.id)"
        is_between = RawSQL(  # noqa: S611 - our own names
            f"{key} > (kind.name, %s) AND {key} < (kind.name, %s)", between, models.BooleanField()
        )
        rows = self.filter(is_between).order_by(f"{sign}event_type", f"{sign}pk").values_list("pk")
        subquery, values = rows[:limit].query.sql_with_params()
        keys = (
            "SELECT few.id FROM unnest(%s::text[]) AS kind (name)"
            f" CROSS JOIN LATERAL ({subquery}) AS few (id)"
            f" {'' if descending is None else f'ORDER BY few.id {direction}'} LIMIT %s"
        )
        return self.filter(pk__in=RawSQL(keys, [list(types), *values, limit]))  # noqa: S611

    def received_between(self, since: datetime | None, until: datetime | None) -> EventQuerySet:
        """Return the events received from `since` to `until`; None for no limit."""
        rows = self if since is None else self.filter(received_at__gte=since)
        return rows if until is None else rows.filter(received_at__lte=until)

    def with_body(self) -> EventQuerySet:
        """Return the events that can be replayed, because their bodies are not deleted."""
        return self.filter(body__isnull=False)

    def waiting(self) -> EventQuerySet:
        return self.filter(state__in=[Event.State.PENDING, Event.State.RETRY])

    def failed(self) -> EventQuerySet:
        return self.filter(state=Event.State.DEAD)


class Event(models.Model):
    """One webhook message of the service (webhooks, chapters 1 and 2).

    `message_id` is the same on every retry of the sender. It is never deleted, so that a repeat is
    recognized even after months. `id` grows with receipt. `body` has the signed bytes; it is
    encrypted some minutes later (`body_encryption.py`) and deleted after `EVENT_BODY_DAYS`, but its
    digest stays.

        received ──▶ pending; dead at once if the body is not a valid event

        pending ──▶ done: applied, or an outcome that says why there was nothing to apply
           │ ├────▶ skipped: an unknown type; may be replayed after an upgrade
           │ ├────▶ quarantined: of another team
           │ └────▶ dead: replayed, and its body is not a valid event
           ▼
         retry ───▶ any of these; dead after the last attempt, until staff replay it

    `reason` and `path` name types, never a value of the body.
    """

    class State(models.TextChoices):
        PENDING = "pending", gettext_lazy("Waiting")
        RETRY = "retry", gettext_lazy("Failed, retrying")
        DONE = "done", gettext_lazy("Done")
        SKIPPED = "skipped", gettext_lazy("Skipped")
        QUARANTINED = "quarantined", gettext_lazy("From another team")
        DEAD = "dead", gettext_lazy("Failed")

    message_id = models.TextField()
    sent_at = models.DateTimeField(help_text="Signed time of the first delivery")
    received_at = models.DateTimeField(db_default=Now(), help_text="First delivery, by our clock")
    last_received_at = models.DateTimeField(db_default=Now())
    deliveries = models.PositiveIntegerField(default=1, db_default=1)
    key_id = models.TextField(default="", db_default="", help_text="Which secret verified it")
    body = EncryptedBinaryField(by="message_id", null=True)
    body_digest = models.BinaryField(max_length=16)
    body_conflict = models.BooleanField(
        default=False, db_default=False, help_text="Came again with another body; the first counts"
    )
    # Copied from the body as far as it can be parsed, for the event log and its filters.
    event_type = models.TextField(default="", db_default="")
    subject_id = models.TextField(
        default="",
        db_default="",
        help_text="The record it is about: its order where there is one, else the record's own id",
    )
    user_id = models.UUIDField(null=True)
    team_id = models.UUIDField(null=True)

    state = models.CharField(
        max_length=12, choices=State, default=State.PENDING, db_default=State.PENDING
    )
    outcome = models.CharField(
        max_length=30,
        default="",
        db_default="",
        help_text="applied, stale, unchanged, looked up, ignored, kept, unknown type, "
        "foreign team, team not known yet, failed",
    )
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    due_at = models.DateTimeField(db_default=Now())
    applied_at = models.DateTimeField(null=True, help_text="When it was done with")
    reason = models.CharField(max_length=200, default="", db_default="", blank=True)
    path = models.CharField(max_length=200, default="", db_default="", blank=True)

    objects = EventQuerySet.as_manager()

    class Meta:
        # Not `unique=True`: that would add a second index, for searches by prefix.
        constraints = [models.UniqueConstraint(fields=["message_id"], name="event_once")]
        indexes = [
            # Reader: apply_events.drain
            models.Index(
                fields=["due_at", "id"],
                condition=Q(state__in=["pending", "retry"]),
                name="event_due",
            ),
            # Readers: the event log and its filters, newest first
            models.Index(
                fields=["subject_id", "id"], condition=~Q(subject_id=""), name="event_of_subject"
            ),
            models.Index(
                fields=["user_id", "id"],
                condition=Q(user_id__isnull=False),
                name="event_of_patient",
            ),
            models.Index(fields=["event_type", "id"], name="event_of_type"),
            models.Index(
                fields=["state", "id"],
                condition=Q(state__in=["retry", "skipped", "quarantined", "dead"]),
                name="event_failing",
            ),
            models.Index(
                fields=["id"], condition=Q(body_conflict=True), name="event_body_conflict"
            ),
            # Reader: retention.delete_old_bodies
            models.Index(
                fields=["id"],
                condition=Q(state__in=["done", "skipped", "quarantined"], body__isnull=False),
                name="event_with_body",
            ),
        ]

    def __str__(self) -> str:
        return f"event {self.message_id}"

    def previous(self) -> Event | None:
        """Return the event before this one about the same record, of the same kind."""
        if not self.subject_id:
            return None
        kind = self.event_type.rpartition(".")[0]
        types = [f"{kind}.created", f"{kind}.updated"]
        earlier = Event.objects.filter(
            subject_id=self.subject_id, pk__lt=self.pk, event_type__in=types
        )
        return earlier.order_by("-pk").first()


def body_encryption_context(message_id: str) -> str:
    """Return the encryption context for the body of this message.

    Code that reads bodies with SQL needs it. The encrypted field uses the same context.
    """
    return f"webhooks_event.body:{message_id}"


def decrypted_body(message_id: str, stored: bytes) -> bytes:
    """Return the body as received from the value in the table. Raises DecryptionError."""
    if not cipher.is_encrypted(stored):
        return stored  # It is not encrypted yet.
    return cipher.decrypt_bytes(stored, body_encryption_context(message_id))


class Refusal(models.Model):
    """How many deliveries were refused, by hour and reason. Nothing else of them is stored."""

    hour = models.DateTimeField()
    reason = models.CharField(max_length=60)
    times = models.BigIntegerField(default=0)
    last_at = models.DateTimeField(db_default=Now())
    seconds_off = models.FloatField(
        null=True, help_text="Of the latest stale one: its time minus ours"
    )
    minute = models.DateTimeField(db_default=Now(), help_text="Of the latest one")
    in_minute = models.BigIntegerField(default=0, db_default=0)
    flood_at = models.DateTimeField(
        null=True, help_text="When a minute last saw more of them than mishaps bring"
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "reason"], name="refusal_of_hour")]
