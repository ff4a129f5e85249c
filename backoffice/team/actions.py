"""Notes, assignments, and calls to patients.

Each action and its audit entry are committed together or not at all.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower
from django.http import HttpRequest
from django.utils import timezone

from backoffice.accounts.access import roles_with, staff_user
from backoffice.accounts.models import User
from backoffice.audit.recording import record_action, record_change
from backoffice.team.models import (
    Assignment,
    AssignmentChange,
    Contact,
    Note,
)
from backoffice.team.notifications import notify
from backoffice.team.subjects import make_subject

MAX_NOTE_LENGTH: Final = 4_000
"""Characters of one note."""
MENTION_PATTERN: Final = re.compile(r"(?<![\w@.])@(\w[\w.@+-]*\w|\w)")


class EmptyNote(Exception):
    """The note is empty."""


class NoteTooLong(Exception):
    """The note is longer than `MAX_NOTE_LENGTH`."""


class AlreadyAssigned(Exception):
    """Someone else is assigned: `user`, since `at`."""

    def __init__(self, user: User, at: datetime) -> None:
        super().__init__(user.pk)
        self.user = user
        self.at = at


def add_note(
    request: HttpRequest,
    subject_type: str,
    subject_id: object,
    text: str,
    patient_id: UUID | None = None,
) -> Note:
    """Write a note and notify the people it mentions with `@`.

    Raise EmptyNote or NoteTooLong.
    """
    about, author = make_subject(subject_type, subject_id, patient_id), staff_user(request)
    text = _clean_text(text)
    if not text:
        raise EmptyNote
    if len(text) > MAX_NOTE_LENGTH:
        raise NoteTooLong
    with transaction.atomic():
        row = Note.objects.create(
            subject_type=about.type,
            subject_id=about.id,
            patient_id=patient_id,
            text=text,
            author=author,
        )
        record_action(request, "note", [row.pk, about.id], [patient_id])
        named = [user for user in mentioned_staff(text).values() if user.pk != author.pk]
        notify(named, "mentioned", about.type, about.id, about=f"note {row.pk}")
    return row


def colleagues() -> QuerySet[User]:
    """Return the members of staff who can be mentioned and assigned."""
    return people_who_may("notes.write")


def people_who_may(permission: str) -> QuerySet[User]:
    """Return the active members of staff whose roles grant a permission."""
    role = Q(groups__name__in=roles_with(permission)) | Q(is_superuser=True)
    return User.objects.filter(role, is_active=True).distinct()


def mentioned_names(text: str) -> list[str]:
    """Return the names that a note mentions, in lower case and in order."""
    return list(dict.fromkeys(name.lower() for name in MENTION_PATTERN.findall(text)))


def mentioned_staff(text: str) -> dict[str, User]:
    """Return the members of staff that a text mentions, by their lower-case user names."""
    names = mentioned_names(text)
    if not names:
        return {}
    users = colleagues().annotate(folded=Lower("username")).filter(folded__in=names)
    return {user.username.lower(): user for user in users}


def assign(
    request: HttpRequest,
    subject_type: str,
    subject_id: object,
    user: User,
    patient_id: UUID | None = None,
    *,
    take: bool = False,
    shown_assignee: int | None = None,
) -> Assignment:
    """Assign a record to `user`.

    Raises AlreadyAssigned if another active account has it and `take` is not set, or if its
    assignee is not the account `shown_assignee` that the page showed.
    """
    about, by = make_subject(subject_type, subject_id, patient_id), staff_user(request)
    with transaction.atomic():
        assignment = Assignment(
            subject_type=about.type,
            subject_id=about.id,
            patient_id=patient_id,
            user=user,
            by=by,
            at=timezone.now(),
        )
        before = None
        try:
            # Of two simultaneous requests, the second waits here until the first has committed.
            with transaction.atomic():
                assignment.save(force_insert=True)
        except IntegrityError:
            # Select without a join to the user: with one, a row that changed while this transaction
            # waited would not be found.
            rows = Assignment.objects.select_for_update()
            row = rows.filter(subject_type=about.type, subject_id=about.id).first()
            if row is None:
                # Released between the two statements.
                assignment.save(force_insert=True)
            elif row.user_id == user.pk:
                return row
            elif (not take and row.user.is_active) or (
                shown_assignee is not None and row.user_id != shown_assignee
            ):
                raise AlreadyAssigned(row.user, row.at) from None
            else:
                before = row.user
                row.user, row.by, row.at, row.known = user, by, assignment.at, ""
                row.save(update_fields=["user", "by", "at", "known"])
                assignment = row
        _record_assignment_change(request, assignment, before, user)
    return assignment


def release(request: HttpRequest, subject_type: str, subject_id: object) -> bool:
    """End the assignment of a record. Return False if there was none."""
    about = make_subject(subject_type, subject_id)
    with transaction.atomic():
        rows = Assignment.objects.select_for_update()
        row = rows.filter(subject_type=about.type, subject_id=about.id).first()
        if row is None:
            return False
        Assignment.objects.filter(pk=row.pk).delete()
        _record_assignment_change(request, row, row.user, None)
    return True


def _record_assignment_change(
    request: HttpRequest, row: Assignment, before: User | None, after: User | None
) -> None:
    by = staff_user(request)
    change = AssignmentChange.objects.create(
        subject_type=row.subject_type,
        subject_id=row.subject_id,
        patient_id=row.patient_id,
        before=before,
        after=after,
        by=by,
    )
    record_change(
        request,
        "assignment",
        [change.pk, row.subject_id],
        before={"works_on_it": before.get_username() if before else None},
        after={"works_on_it": after.get_username() if after else None},
        patients=[row.patient_id],
    )
    about = f"change {change.pk}"
    for user, kind in ((after, "assigned"), (before, "taken")):
        if user is not None and user.pk != by.pk:
            notify([user], kind, row.subject_type, row.subject_id, about=about)


def record_contact(
    request: HttpRequest,
    patient_id: UUID | None,
    subject_type: str,
    subject_id: object,
    outcome: str,
    note: str = "",
    next_due_at: datetime | None = None,
) -> Contact:
    """Record an attempt to reach a patient. The row is never changed."""
    about = make_subject(subject_type, subject_id, patient_id)
    if outcome not in Contact.Outcome.values:
        raise LookupError(f"not an outcome: {outcome}")
    with transaction.atomic():
        row = Contact.objects.create(
            patient_id=patient_id,
            subject_type=about.type,
            subject_id=about.id,
            outcome=outcome,
            note=_clean_text(note)[:MAX_NOTE_LENGTH],
            by=staff_user(request),
            next_due_at=next_due_at,
        )
        record_action(request, "contact", [row.pk, about.id], [patient_id])
    return row


def _clean_text(text: str) -> str:
    clean = text.replace("\x00", "").encode("utf-8", "replace").decode()
    return clean.replace("\r\n", "\n").strip()
