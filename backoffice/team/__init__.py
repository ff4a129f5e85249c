"""Team work on any record: notes, who works on it, calls, and telling each other.

`note`, `assign`, `release` and `contact` write one row each with its audit entry; `notify` tells
people. On pages: `{% load team %}`.
"""

from backoffice.team.actions import (
    LETTERS,
    Empty,
    Taken,
    TooLong,
    assign,
    colleagues,
    contact,
    note,
    notify,
    people_who_may,
    release,
)
from backoffice.team.notification_kinds import KINDS
from backoffice.team.queries import holders
from backoffice.team.subjects import SUBJECTS, url_of, word_for

__all__ = [
    "KINDS",
    "LETTERS",
    "SUBJECTS",
    "Empty",
    "Taken",
    "TooLong",
    "assign",
    "colleagues",
    "contact",
    "holders",
    "note",
    "notify",
    "people_who_may",
    "release",
    "url_of",
    "word_for",
]
