"""Kinds of records that team work can be about: their labels and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.core import signing
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext, gettext_noop

SUBJECTS: Final[dict[str, tuple[str, str]]] = {
    "order": (gettext_noop("order"), "orders:detail"),
    "patient": (gettext_noop("patient"), "patients:detail"),
    "appointment": (gettext_noop("visit"), ""),
    "result": (gettext_noop("result"), "orders:detail"),
    "report": (gettext_noop("lab report"), "reports:detail"),
    "unmatched": (gettext_noop("unmatched result"), "unmatched:detail"),
    "event": (gettext_noop("event"), "events:detail"),
    "command": (gettext_noop("request"), "commands:detail"),
}
"""Label and route of the page by kind. A result has the id of its order."""

RESULT_SUBJECTS: Final = ("result",)
"""Kinds of records with notes that may contain values: only for people who see results."""

_SALT: Final = "team.subject"


class InvalidSubject(Exception):
    """The subject of a form was not signed by one of our pages."""


@dataclass(frozen=True, slots=True)
class Subject:
    type: str
    id: str
    patient_id: UUID | None = None

    def signed(self) -> str:
        """Return the subject for a form. People may write only about what a page showed them."""
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
    return gettext(SUBJECTS.get(subject_type, (subject_type, ""))[0])


def subject_url(subject_type: str, subject_id: str) -> str:
    """Return the URL of the page of a record; "" if it has none."""
    route = SUBJECTS.get(subject_type, ("", ""))[1]
    if not route:
        return ""
    try:
        return reverse(route, args=[subject_id])
    except NoReverseMatch:
        return ""
