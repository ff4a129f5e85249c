"""What stands about a record: notes and calls, and who works on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from backoffice.models import User
from backoffice.team.models import Assignment, Contact, Note
from backoffice.team.subjects import OF_RESULTS, Subject, url_of, word_for

SHOWN: Final = 5
MOST: Final = 50


@dataclass(frozen=True, slots=True)
class Said:
    """A note or a call, as one entry of a list."""

    at: datetime
    by: User
    text: str
    outcome: str
    next_due_at: datetime | None
    on: str
    """What it is about, where that is not the record of the page: `order`."""
    url: str


def said_about(subject: Subject, *, sees_results: bool) -> list[Said]:
    """Newest first; on a patient everything about the patient's orders and visits as well, and
    about results for those who see them."""
    if subject.type == "patient":
        about = {"patient_id": subject.id}
    else:
        about = {"subject_type": subject.type, "subject_id": subject.id}
    hidden = () if sees_results else OF_RESULTS
    notes = Note.objects.filter(**about).exclude(subject_type__in=hidden).select_related("author")
    contacts = Contact.objects.filter(**about).exclude(subject_type__in=hidden)
    notes = notes.order_by("-at", "-pk")
    contacts = contacts.select_related("by").order_by("-at", "-pk")
    found = [
        Said(one.at, one.author, one.text, "", None, *elsewhere(one, subject))
        for one in notes[: MOST + 1]
    ]
    for one in contacts[: MOST + 1]:
        on, url = elsewhere(one, subject)
        outcome = one.get_outcome_display()
        found.append(Said(one.at, one.by, one.note, outcome, one.next_due_at, on, url))
    return sorted(found, key=lambda one: one.at, reverse=True)[: MOST + 1]


_HOLDERS: Final = """
SELECT backoffice_user.*, subject_id, at
FROM backoffice_assignment JOIN backoffice_user ON backoffice_user.id = user_id
WHERE subject_type = %s AND subject_id = ANY(%s)
"""


def holders(subject_type: str, ids: Iterable[Any]) -> dict[str, Assignment]:
    """Who is on these records since when, by their ids as text: one query. Each list asks it."""
    found: Iterable[Any] = User.objects.raw(_HOLDERS, [subject_type, [str(one) for one in ids]])
    return {
        user.subject_id: Assignment(
            subject_type=subject_type, subject_id=user.subject_id, user=user, at=user.at
        )
        for user in found
    }


def elsewhere(one: Any, subject: Subject) -> tuple[str, str]:
    """What a row is about, and its page, where that is not the record of the page."""
    if (one.subject_type, one.subject_id) == (subject.type, subject.id):
        return "", ""
    return word_for(one.subject_type), url_of(one.subject_type, one.subject_id)


def who_has(subject: Subject) -> Assignment | None:
    rows = Assignment.objects.select_related("user")
    return rows.filter(subject_type=subject.type, subject_id=subject.id).first()
