"""Team work on any record: notes, who works on it, calls, and telling each other.

`note`, `assign`, `release` and `contact` write one row each with its audit entry; `notify` tells
people. On pages: `{% load team %}`.
"""

from backoffice.team.kinds import KINDS
from backoffice.team.reading import holders
from backoffice.team.subjects import SUBJECTS, url_of, word_for
from backoffice.team.writing import (
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
