"""Who on record may be the person somebody is about to register.

Warned of, never held back: the same birth date with a similar name, also with first and last name
swapped, the same phone number, the same e-mail address. Each by an index of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher
from typing import Final
from uuid import UUID

from backoffice.core.phone_numbers import e164_or_unchanged
from backoffice.core.prepared_queries import array
from patients.identity import Agreement, compare_name_parts
from patients.models import Patient
from patients.names import phone_key, words

SHOWN: Final = 5
EACH_WAY: Final = 200
"""People of one birth date, phone number or address who are looked at."""
SIMILAR: Final = 0.8
PHONE_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class TypedPerson:
    """What was typed so far; anything may be missing."""

    first_name: str = ""
    last_name: str = ""
    dob: date | None = None
    phone_number: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class DuplicateCandidate:
    """Somebody on record, and what they have in common."""

    person: Patient
    reasons: list[str]


def find_duplicate_candidates(
    typed: TypedPerson, but: Iterable[UUID] = ()
) -> list[DuplicateCandidate]:
    """Those who may be the same person, most reasons first; `but` are known not to be."""
    phone = phone_key(e164_or_unchanged(typed.phone_number))[:PHONE_DIGITS]
    email = typed.email.replace("\0", "").strip().lower()
    ways = []
    if typed.dob and (typed.first_name or typed.last_name):
        ways.append("dob = %(dob)s")
    if len(phone) == PHONE_DIGITS:
        ways.append("phone_digits LIKE %(phone)s")
    if "@" in email:
        ways.append("lower(email) = %(email)s")
    if not ways:
        return []
    asked = {"dob": typed.dob, "phone": f"{phone}%", "email": email, "but": array(but)}
    statement = " UNION ALL ".join(_ALIKE.format(way=way) for way in ways)
    people = {person.pk: person for person in Patient.objects.raw(statement, asked)}
    found = []
    for person in people.values():
        reasons = []
        if typed.dob and person.dob == typed.dob:
            reasons += _names(typed, person)
        if phone and len(phone) == PHONE_DIGITS and person.phone_digits.startswith(phone):
            reasons.append("Same phone number")
        if "@" in email and person.email.lower() == email:
            reasons.append("Same e-mail address")
        if reasons:
            found.append(DuplicateCandidate(person, reasons))
    found.sort(key=lambda one: (-len(one.reasons), one.person.pk))
    return found[:SHOWN]


_ALIKE: Final = f"""
(SELECT id, first_name, last_name, dob, phone_digits, email, city, state
 FROM patients_patient
 WHERE missing_since IS NULL AND id <> ALL(%(but)s) AND {{way}} LIMIT {EACH_WAY})
"""  # noqa: S608 - a number of ours


def _names(typed: TypedPerson, person: Patient) -> list[str]:
    ours, theirs = _key(typed), _key(person)
    if ours == theirs:
        return ["Same name and birth date"]
    if _alike(ours, theirs):
        return ["Similar name, same birth date"]
    if _alike(ours, theirs[::-1]):
        return ["First and last name swapped, same birth date"]
    names = typed.first_name, typed.last_name, person.first_name, person.last_name
    same = compare_name_parts(*names) is Agreement.SAME
    return ["Similar name, same birth date"] if same else []


def _key(person: TypedPerson | Patient) -> tuple[str, str]:
    """First and last name, folded, each without anything between its words."""
    return "".join(words(person.first_name)), "".join(words(person.last_name))


def _alike(ours: tuple[str, str], theirs: tuple[str, str]) -> bool:
    """Both names are close, or the beginning of one another; one not typed yet says nothing."""
    pairs = [pair for pair in zip(ours, theirs, strict=True) if pair[0]]
    return bool(pairs) and all(_close(*pair) for pair in pairs)


def _close(one: str, other: str) -> bool:
    """Close in letters, or an initial."""
    if not other:
        return False
    begins = one.startswith(other) or other.startswith(one)
    return begins or SequenceMatcher(None, one, other).ratio() >= SIMILAR
