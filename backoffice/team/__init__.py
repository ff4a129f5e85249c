"""Team work on any record: notes, assignments, calls to patients, and notifications.

`add_note`, `assign`, `release`, and `record_contact` write one row each with its audit entry;
`notify` creates notifications. On pages: `{% load team %}`.
"""

from backoffice.team.actions import (
    MAX_NOTE_LENGTH,
    AlreadyAssigned,
    EmptyNote,
    NoteTooLong,
    add_note,
    assign,
    colleagues,
    notify,
    people_who_may,
    record_contact,
    release,
)
from backoffice.team.notification_kinds import NOTIFICATION_KINDS
from backoffice.team.queries import assignments_by_subject
from backoffice.team.subjects import SUBJECTS, subject_label, subject_url

__all__ = [
    "MAX_NOTE_LENGTH",
    "NOTIFICATION_KINDS",
    "SUBJECTS",
    "AlreadyAssigned",
    "EmptyNote",
    "NoteTooLong",
    "add_note",
    "assign",
    "assignments_by_subject",
    "colleagues",
    "notify",
    "people_who_may",
    "record_contact",
    "release",
    "subject_label",
    "subject_url",
]
