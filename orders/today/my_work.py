"""What is mine: records I took, drafts I have not placed, requests of mine that are under way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from backoffice.core.prepared_queries import by_key
from backoffice.models import CommandRecord, User
from backoffice.team.models import Assignment, Contact, Note
from backoffice.team.subjects import OF_RESULTS, url_of, word_for
from orders.models import Order, OrderDraft
from orders.models.order_queryset import LIST_COLUMNS
from patients.models import Patient

MOST: Final = 30

Said = TypeVar("Said", Note, Contact)


@dataclass(frozen=True, slots=True)
class Held:
    """A record somebody works on, with what is known of it."""

    row: Assignment
    word: str
    url: str
    order: Order | None
    person: Patient | None
    due_at: datetime | None
    """When to call again, as the last call said."""
    last: Note | Contact | None

    @property
    def born(self) -> date | None:
        if self.person is not None:
            return self.person.dob
        return self.order.patient_dob if self.order else None


@dataclass(frozen=True, slots=True)
class Draft:
    row: OrderDraft
    person: Patient | None


def held_by(user: User) -> list[Held]:
    """Due next first, then what was taken first; one more than is shown tells that there are more.
    Five queries."""
    return described(Assignment.objects.filter(user=user).order_by("at"), MOST + 1)


def described(rows: QuerySet[Assignment], most: int = MOST, *, results: bool = False) -> list[Held]:
    """At most so many of these assignments with their records, last notes and due times; what was
    said of results only where `results` may be seen."""
    found = list(rows.select_related("user")[:most])
    if not found:
        return []
    keys = [UUID(row.subject_id) for row in found if row.subject_type in ("order", "result")]
    orders = by_key(Order, keys, LIST_COLUMNS)
    people = people_of(row.patient_id for row in found)
    contacts = {
        (one.subject_type, one.subject_id): one
        for one in _latest(Contact.objects.select_related("by"), found)
    }
    notes = {
        (one.subject_type, one.subject_id): one
        for one in _latest(Note.objects.select_related("author"), found)
    }
    held = []
    for row in found:
        key = (row.subject_type, row.subject_id)
        contact, note = contacts.get(key), notes.get(key)
        last = max((one for one in (contact, note) if one), key=lambda one: one.at, default=None)
        if row.subject_type in OF_RESULTS and not results:
            last = None
        held.append(
            Held(
                row,
                word_for(row.subject_type),
                url_of(row.subject_type, row.subject_id),
                orders.get(UUID(row.subject_id))
                if row.subject_type in ("order", "result")
                else None,
                people.get(row.patient_id) if row.patient_id else None,
                contact.next_due_at if contact else None,
                last,
            )
        )
    return sorted(held, key=lambda one: (one.due_at is None, one.due_at or one.row.at))


def _latest(said: QuerySet[Said], rows: Iterable[Assignment]) -> QuerySet[Said]:
    """The newest about each record."""
    keys = [(row.subject_type, row.subject_id) for row in rows]
    ids = {key for _, key in keys}
    return (
        said.filter(subject_type__in={kind for kind, _ in keys}, subject_id__in=ids)
        .order_by("subject_type", "subject_id", "-at")
        .distinct("subject_type", "subject_id")
    )


def drafts_of(user: User) -> list[Draft]:
    """Orders that are written and not placed, the latest first."""
    found = list(OrderDraft.objects.filter(user=user).defer("typed").order_by("-saved_at")[:MOST])
    people = people_of(row.patient_id for row in found)
    return [Draft(row, people.get(row.patient_id)) for row in found]


def requests_of(user: User) -> list[CommandRecord]:
    """What I asked of the service and is not settled yet, the latest first."""
    rows = CommandRecord.objects.open().filter(requested_by=user)
    return list(rows.order_by("-requested_at")[:MOST])


def people_of(patients: Iterable[UUID | None]) -> dict[UUID, Patient]:
    """Those whose names are known."""
    wanted = {key for key in patients if key}
    people = by_key(Patient, wanted, ("first_name", "last_name", "dob"))
    return {key: person for key, person in people.items() if person.full_name}
