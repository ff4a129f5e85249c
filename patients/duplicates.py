"""Duplicate candidates: patients who may be the person in a form or another patient.

Staff are warned and can continue. A candidate has the same birth date and a similar name (also with
first and last name swapped), the same phone number, or the same email address. Each reason has its
own index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher
from typing import Final
from uuid import UUID

from django.utils.translation import gettext

from backoffice.core.phone_numbers import e164_or_unchanged
from backoffice.core.prepared_queries import array
from patients.identity_comparison import Agreement, compare_name_parts
from patients.models import Demographics, DifferentPeople, Patient
from patients.search_keys import parse_birth_date, phone_key, words

MAX_CANDIDATES: Final = 5
MAX_COMPARED: Final = 200
"""Most people compared for each birth date, phone number or email address."""
MIN_SIMILARITY: Final = 0.8
PHONE_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class TypedPerson:
    """The details to compare with patients. Any of them may be empty."""

    first_name: str = ""
    last_name: str = ""
    dob: date | None = None
    phone_number: str = ""
    email: str = ""

    @classmethod
    def from_form(cls, data: Mapping[str, str]) -> TypedPerson:
        """Return the person whose details are in the data of a form."""
        return cls(
            first_name=data.get("first_name", "")[:100],
            last_name=data.get("last_name", "")[:100],
            dob=parse_birth_date(data.get("dob", "")[:40]),
            phone_number=data.get("phone_number", "")[:40],
            email=data.get("email", "")[:200],
        )

    @classmethod
    def from_record(cls, person: Demographics | Patient) -> TypedPerson:
        return cls(
            first_name=person.first_name,
            last_name=person.last_name,
            dob=person.dob,
            phone_number=person.phone_number,
            email=person.email,
        )


@dataclass(frozen=True, slots=True)
class DuplicateCandidate:
    """A patient who may be the same person, and the reasons for that."""

    person: Patient
    reasons: list[str]


def find_duplicate_candidates(
    typed: TypedPerson, patient_id: UUID | None = None
) -> list[DuplicateCandidate]:
    """Return the patients who may be the same person, most reasons first.

    `patient_id`: the patient with these details, if there is one. Neither this patient nor those
    who were declared to be different people are candidates.
    """
    phone = phone_key(e164_or_unchanged(typed.phone_number))[:PHONE_DIGITS]
    email = typed.email.replace("\0", "").strip().lower()
    conditions = []
    if typed.dob and (typed.first_name or typed.last_name):
        conditions.append("dob = %(dob)s")
    if len(phone) == PHONE_DIGITS:
        conditions.append("phone_digits LIKE %(phone)s")
    if "@" in email:
        conditions.append("lower(email) = %(email)s")
    if not conditions:
        return []
    excluded = (
        {patient_id} | DifferentPeople.different_from(patient_id) if patient_id else set[UUID]()
    )
    values = {"dob": typed.dob, "phone": f"{phone}%", "email": email, "excluded": array(excluded)}
    statement = " UNION ALL ".join(_CANDIDATES.format(condition=sql) for sql in conditions)
    people = {person.pk: person for person in Patient.objects.raw(statement, values)}
    candidates = []
    for person in people.values():
        reasons = []
        if typed.dob and person.dob == typed.dob:
            reasons += _name_reasons(typed, person)
        if len(phone) == PHONE_DIGITS and person.phone_digits.startswith(phone):
            reasons.append(gettext("Same phone number"))
        if "@" in email and person.email.lower() == email:
            reasons.append(gettext("Same email address"))
        if reasons:
            candidates.append(DuplicateCandidate(person, reasons))
    candidates.sort(key=lambda candidate: (-len(candidate.reasons), candidate.person.pk))
    return candidates[:MAX_CANDIDATES]


_CANDIDATES: Final = f"""
(SELECT id, first_name, last_name, dob, phone_digits, email, city, state
 FROM patients_patient
 WHERE missing_since IS NULL AND id <> ALL(%(excluded)s) AND {{condition}} LIMIT {MAX_COMPARED})
"""  # noqa: S608 - a constant number


def _name_reasons(typed: TypedPerson, person: Patient) -> list[str]:
    """Return why the names of two people with one birth date match; empty if they do not."""
    typed_key, patient_key = _key(typed), _key(person)
    if typed_key == patient_key:
        return [gettext("Same name and birth date")]
    if _are_similar(typed_key, patient_key):
        return [gettext("Similar name, same birth date")]
    if _are_similar(typed_key, patient_key[::-1]):
        return [gettext("First and last name swapped, same birth date")]
    names = typed.first_name, typed.last_name, person.first_name, person.last_name
    same = compare_name_parts(*names) is Agreement.SAME
    return [gettext("Similar name, same birth date")] if same else []


def _key(person: TypedPerson | Patient) -> tuple[str, str]:
    """Return the folded first and last name, each with its words joined."""
    return "".join(words(person.first_name)), "".join(words(person.last_name))


def _are_similar(typed: tuple[str, str], stored: tuple[str, str]) -> bool:
    """Whether both names are similar. A name that is not typed yet is not compared."""
    pairs = [pair for pair in zip(typed, stored, strict=True) if pair[0]]
    return bool(pairs) and all(_is_similar(*pair) for pair in pairs)


def _is_similar(typed: str, stored: str) -> bool:
    """Whether the letters are similar, or one name begins with the other."""
    if not stored:
        return False
    if typed.startswith(stored) or stored.startswith(typed):
        return True
    return SequenceMatcher(None, typed, stored).ratio() >= MIN_SIMILARITY
