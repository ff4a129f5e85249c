"""Records that a team can talk about: their kinds in words, and their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.core import signing
from django.urls import NoReverseMatch, reverse

SUBJECTS: Final[dict[str, tuple[str, str]]] = {
    "order": ("order", "orders:detail"),
    "patient": ("patient", "patients:detail"),
    "appointment": ("visit", ""),
    "result": ("result", "orders:detail"),
    "report": ("lab report", "reports:detail"),
    "unmatched": ("unmatched result", "unmatched:detail"),
    "event": ("event", "events:detail"),
    "command": ("request", "commands:detail"),
}
"""Kind to its word and the route of its page. A result has the id of its order."""

RESULT_SUBJECTS: Final = ("result",)
"""Kinds of records whose notes may tell values: for those who see results."""

_SALT: Final = "team.subject"


class InvalidSubject(Exception):
    """What a form says it is about was not written by one of our pages."""


@dataclass(frozen=True, slots=True)
class Subject:
    type: str
    id: str
    patient_id: UUID | None = None

    def signed(self) -> str:
        """For a form: what was shown to somebody is what they may write about."""
        patient = str(self.patient_id) if self.patient_id else ""
        return signing.dumps([self.type, self.id, patient], salt=_SALT)

    @classmethod
    def read(cls, signed: str) -> Subject:
        try:
            kind, key, patient = signing.loads(signed, salt=_SALT)
        except (signing.BadSignature, ValueError, TypeError) as error:
            raise InvalidSubject from error
        return cls(kind, key, UUID(patient) if patient else None)


def make_subject(subject_type: str, subject_id: object, patient_id: UUID | None = None) -> Subject:
    if subject_type not in SUBJECTS:
        raise LookupError(f"not a kind of record: {subject_type}")
    return Subject(subject_type, str(subject_id), patient_id)


def subject_label(subject_type: str) -> str:
    return SUBJECTS.get(subject_type, (subject_type, ""))[0]


def subject_url(subject_type: str, subject_id: str) -> str:
    """The page of a record; empty where it has none."""
    route = SUBJECTS.get(subject_type, ("", ""))[1]
    if not route:
        return ""
    try:
        return reverse(route, args=[subject_id])
    except NoReverseMatch:
        return ""
