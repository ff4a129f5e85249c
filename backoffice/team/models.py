"""Team work on a record: notes, assignments, calls to patients, and notifications.

A record is named by its kind and id (`subject_type`, `subject_id`), because this package does not
know orders or results. `patient_id` is the patient of the record, for the patient's page. Notes,
contacts, and changes of assignments are only added: a database trigger enforces it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from backoffice.accounts.models import User


class Note(models.Model):
    """A note that somebody wrote about a record."""

    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    patient_id = models.UUIDField(null=True)
    text = models.TextField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["subject_type", "subject_id", "-at"], name="note_of_subject"),
            models.Index(
                fields=["patient_id", "-at"],
                condition=Q(patient_id__isnull=False),
                name="note_of_patient",
            ),
        ]


class Assignment(models.Model):
    """The person who works on a record now: one at most."""

    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    patient_id = models.UUIDField(null=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    known = models.TextField(
        default="", db_default="", blank=True, help_text="State of the record its person knows of"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject_type", "subject_id"], name="assigned_once")
        ]
        indexes = [models.Index(fields=["user", "-at"], name="assignment_of_person")]


class AssignmentChange(models.Model):
    """A record went from one person (or nobody) to another (or nobody)."""

    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    patient_id = models.UUIDField(null=True)
    before = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    after = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["subject_type", "subject_id", "-at"], name="assigned_of_subject"),
            models.Index(
                fields=["patient_id", "-at"],
                condition=Q(patient_id__isnull=False),
                name="assigned_of_patient",
            ),
        ]


class Contact(models.Model):
    """An attempt to reach a patient, and its outcome."""

    class Outcome(models.TextChoices):
        SPOKE = "spoke", gettext_lazy("Spoke with the patient")
        VOICEMAIL = "voicemail", gettext_lazy("Left a voicemail")
        NO_ANSWER = "no_answer", gettext_lazy("No answer")
        WRONG_NUMBER = "wrong_number", gettext_lazy("Wrong number")
        RESHIP_ASKED = "reship_asked", gettext_lazy("Re-ship requested")
        SNOOZED = "snoozed", gettext_lazy("Snoozed")

    patient_id = models.UUIDField(null=True)
    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    outcome = models.CharField(max_length=20, choices=Outcome)
    note = models.TextField(default="", blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(db_default=Now())
    next_due_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["subject_type", "subject_id", "-at"], name="contact_of_subject"),
            models.Index(
                fields=["patient_id", "-at"],
                condition=Q(patient_id__isnull=False),
                name="contact_of_patient",
            ),
        ]


class NotificationQuerySet(models.QuerySet["Notification"]):
    def of_user(self, user_id: int | None) -> Self:
        return self.filter(user=user_id)

    def unseen(self) -> Self:
        return self.filter(seen_at=None)

    def mark_seen(self, newest_id: int) -> None:
        """Mark the notifications up to `newest_id` as seen: the page showed no later ones."""
        self.unseen().filter(pk__lte=newest_id).update(seen_at=timezone.now())


class Notification(models.Model):
    """A notification for one person, shown in the app and perhaps mailed.

    `about` names the occurrence (an event, a note), so nobody is notified of it twice. Rows of one
    email share `mail_id`, which is also its Message-ID: if it is sent again because the answer of
    the mail server was lost, it is the same message.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    subject_type = models.CharField(max_length=40)
    subject_id = models.TextField()
    about = models.TextField()
    at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(null=True)
    mail_due_at = models.DateTimeField(null=True, help_text="Null: no email is to be sent")
    mail_id = models.UUIDField(null=True)
    mail_attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    mail_lease_until = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)
    mail_error = models.CharField(max_length=200, default="", db_default="", blank=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "kind", "subject_type", "subject_id", "about"], name="told_once"
            )
        ]
        indexes = [
            # Reader: the page of notifications
            models.Index(fields=["user", "-at", "-id"], name="notification_newest"),
            # Reader: the bell
            models.Index(
                fields=["user"], condition=Q(seen_at__isnull=True), name="notification_unseen"
            ),
            # Reader: team.emails
            models.Index(
                fields=["mail_due_at"],
                condition=Q(mail_due_at__isnull=False),
                name="notification_to_mail",
            ),
            models.Index(
                fields=["mail_id"], condition=Q(mail_id__isnull=False), name="notification_mail"
            ),
            # Reader: orders.results.escalation, every few seconds
            models.Index(
                fields=["subject_id", "about"],
                condition=Q(kind="critical-waits"),
                name="notification_critical",
            ),
        ]


class MailChoiceQuerySet(models.QuerySet["MailChoice"]):
    def unwanted_kinds(self, user: User) -> set[str]:
        """Return the kinds of notifications about which a person wants no email."""
        return set(self.filter(user=user, wanted=False).values_list("kind", flat=True))

    def replace(self, user: User, wanted_kinds: Collection[str], kinds: Iterable[str]) -> None:
        """Store for each of `kinds` whether a person wants email about it."""
        rows = [MailChoice(user=user, kind=kind, wanted=kind in wanted_kinds) for kind in kinds]
        self.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["user", "kind"],
            update_fields=["wanted"],
        )


class MailChoice(models.Model):
    """Whether a person wants email about a kind of notification; without a row, yes."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    wanted = models.BooleanField()

    objects = MailChoiceQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "kind"], name="mail_choice_once")]
