"""Queries about a record: its notes and calls, and its assignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from backoffice.accounts.models import User
from backoffice.core.prepared_queries import array, columns, read
from backoffice.team.models import Assignment, Contact
from backoffice.team.subjects import RESULT_SUBJECTS, Subject, subject_label, subject_url

SHOWN_NOTES: Final = 5
MAX_NOTES: Final = 50


class AboutSubject(Protocol):
    """A row about a record."""

    subject_type: str
    subject_id: str


@dataclass(frozen=True, slots=True)
class NoteOrCall:
    """A note or a call, as one entry of a list."""

    at: datetime
    by: User
    text: str
    outcome: str
    next_due_at: datetime | None
    on: str
    """Label of its record, such as `order`; "" if it is the record of the page."""
    url: str


_NOTES_AND_CALLS: Final = """
SELECT {staff}, entry.* FROM (
 (SELECT at, author_id AS by_id, text, '' AS outcome, NULL::timestamptz AS next_due_at,
  subject_type, subject_id, id AS entry_id
  FROM team_note WHERE {about} ORDER BY at DESC, id DESC LIMIT %(most)s)
 UNION ALL
 (SELECT at, by_id, note, outcome, next_due_at, subject_type, subject_id, id
  FROM team_contact WHERE {about} ORDER BY at DESC, id DESC LIMIT %(most)s)
) AS entry JOIN accounts_user ON accounts_user.id = by_id
ORDER BY at DESC, outcome <> '', entry_id DESC LIMIT %(most)s
"""
_PATIENT_CONDITION: Final = "patient_id = %(id)s AND subject_type <> ALL(%(hidden)s)"
_SUBJECT_CONDITION: Final = (
    "subject_type = %(type)s AND subject_id = %(id)s AND subject_type <> ALL(%(hidden)s)"
)


def notes_and_calls(subject: Subject, *, sees_results: bool) -> list[NoteOrCall]:
    """Return the notes and calls about a record, newest first, with one query.

    For a patient, include those about their orders and visits. Include those about results only if
    `sees_results`.
    """
    about = _PATIENT_CONDITION if subject.type == "patient" else _SUBJECT_CONDITION
    statement = _NOTES_AND_CALLS.format(staff=columns(User), about=about)
    hidden = [] if sees_results else list(RESULT_SUBJECTS)
    parameters = {"type": subject.type, "id": subject.id, "hidden": hidden, "most": MAX_NOTES + 1}
    rows: Iterable[Any] = read(User, statement, parameters)
    return [
        NoteOrCall(
            row.at,
            row,
            row.text,
            str(Contact.Outcome(row.outcome).label) if row.outcome else "",
            row.next_due_at,
            *other_subject(row, subject),
        )
        for row in rows
    ]


_ASSIGNMENTS: Final = f"""
SELECT {columns(User)}, subject_id, at
FROM team_assignment JOIN accounts_user ON accounts_user.id = user_id
WHERE subject_type = %s AND subject_id = ANY(%s)
"""  # noqa: S608 - our names


def assignments_by_subject(subject_type: str, ids: Iterable[object]) -> dict[str, Assignment]:
    """Return the assignments of these records by id, as text, with one query. Lists use it."""
    users: Iterable[Any] = read(User, _ASSIGNMENTS, [subject_type, array(ids)])
    return {
        user.subject_id: Assignment(
            subject_type=subject_type, subject_id=user.subject_id, user=user, at=user.at
        )
        for user in users
    }


def other_subject(row: AboutSubject, subject: Subject) -> tuple[str, str]:
    """Return the label and URL of the record of a row; "" for both if it is `subject` itself."""
    if (row.subject_type, row.subject_id) == (subject.type, subject.id):
        return "", ""
    return subject_label(row.subject_type), subject_url(row.subject_type, row.subject_id)


def assignment_of(subject: Subject) -> Assignment | None:
    return assignments_by_subject(subject.type, [subject.id]).get(subject.id)
