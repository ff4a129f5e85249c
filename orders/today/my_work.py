"""The work of one user: assigned records, order drafts, and open requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from backoffice.accounts.models import User
from backoffice.core.prepared_queries import by_key
from backoffice.outbox.models import CommandRecord
from backoffice.team.models import Assignment, Contact, Note
from backoffice.team.subjects import RESULT_SUBJECTS, subject_label, subject_url
from orders.models import Order, OrderDraft
from orders.models.order_queryset import LIST_COLUMNS
from patients.models import Patient

MAX_ROWS: Final = 30

NoteOrContact = TypeVar("NoteOrContact", Note, Contact)


@dataclass(frozen=True, slots=True)
class AssignedRecord:
    """An assigned record, with its order, patient and last note or call."""

    row: Assignment
    label: str
    url: str
    order: Order | None
    person: Patient | None
    due_at: datetime | None
    """When to call again, according to the last call."""
    last_message: Note | Contact | None

    @property
    def born(self) -> date | None:
        if self.person is not None:
            return self.person.dob
        return self.order.patient_dob if self.order else None


@dataclass(frozen=True, slots=True)
class DraftWithPatient:
    row: OrderDraft
    person: Patient | None


def assigned_records(user: User) -> list[AssignedRecord]:
    """Return the user's assigned records: due ones first, then the oldest. Five queries.

    The list has one record more than is shown, so that the page can say that there are more.
    """
    return describe_assignments(Assignment.objects.filter(user=user).order_by("at"), MAX_ROWS + 1)


def describe_assignments(
    rows: QuerySet[Assignment], most: int = MAX_ROWS, *, results: bool = False
) -> list[AssignedRecord]:
    """Return at most `most` of these assignments with their records, last notes and due times.

    Notes and calls about results are included only if `results` is true.
    """
    assignments = list(rows.select_related("user")[:most])
    if not assignments:
        return []
    keys = [UUID(row.subject_id) for row in assignments if row.subject_type in ("order", "result")]
    orders = by_key(Order, keys, LIST_COLUMNS)
    people = named_patients(row.patient_id for row in assignments)
    contacts = {
        (contact.subject_type, contact.subject_id): contact
        for contact in _newest_per_record(Contact.objects.select_related("by"), assignments)
    }
    notes = {
        (note.subject_type, note.subject_id): note
        for note in _newest_per_record(Note.objects.select_related("author"), assignments)
    }
    records = []
    for row in assignments:
        key = (row.subject_type, row.subject_id)
        contact, note = contacts.get(key), notes.get(key)
        last_message = max(
            (entry for entry in (contact, note) if entry), key=lambda entry: entry.at, default=None
        )
        if row.subject_type in RESULT_SUBJECTS and not results:
            last_message = None
        records.append(
            AssignedRecord(
                row,
                subject_label(row.subject_type),
                subject_url(row.subject_type, row.subject_id),
                orders.get(UUID(row.subject_id))
                if row.subject_type in ("order", "result")
                else None,
                people.get(row.patient_id) if row.patient_id else None,
                contact.next_due_at if contact else None,
                last_message,
            )
        )
    return sorted(
        records, key=lambda record: (record.due_at is None, record.due_at or record.row.at)
    )


def _newest_per_record(
    messages: QuerySet[NoteOrContact], rows: Iterable[Assignment]
) -> QuerySet[NoteOrContact]:
    """Return the newest note or call about each record."""
    keys = [(row.subject_type, row.subject_id) for row in rows]
    ids = {key for _, key in keys}
    return (
        messages.filter(subject_type__in={kind for kind, _ in keys}, subject_id__in=ids)
        .order_by("subject_type", "subject_id", "-at")
        .distinct("subject_type", "subject_id")
    )


def order_drafts(user: User) -> list[DraftWithPatient]:
    """Return the user's drafts of orders, the latest first."""
    drafts = list(
        OrderDraft.objects.filter(user=user).defer("typed").order_by("-saved_at")[:MAX_ROWS]
    )
    people = named_patients(row.patient_id for row in drafts)
    return [DraftWithPatient(row, people.get(row.patient_id)) for row in drafts]


def open_requests(user: User) -> list[CommandRecord]:
    """Return the user's commands that are not settled yet, the latest first."""
    rows = CommandRecord.objects.open().filter(requested_by=user)
    return list(rows.order_by("-requested_at")[:MAX_ROWS])


def named_patients(patients: Iterable[UUID | None]) -> dict[UUID, Patient]:
    """Return the patients that have a name."""
    people = by_key(Patient, set(patients), ("first_name", "last_name", "dob"))
    return {person.pk: person for person in people.values() if person.full_name}
