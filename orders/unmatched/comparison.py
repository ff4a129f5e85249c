"""Comparison of the person named on a result with the possible patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from labs.models import Lab
from orders.models import Order
from orders.models.unmatched_result import Candidate, UnmatchedResult
from orders.unmatched.forms import PATIENT_PREFIX, choice_of
from patients.identity_comparison import Agreement, compare_name_parts
from patients.models import Patient
from patients.search_keys import fold


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """One detail of a person, and whether it differs from the result."""

    value: str | date | None
    differs: bool


@dataclass(frozen=True, slots=True)
class ComparedPerson:
    """A suggestion beside the result. For a patient alone, `order` and `candidate` are None."""

    choice: str
    user_id: UUID | None
    name: ComparedValue
    dob: ComparedValue
    gender: ComparedValue
    lab: ComparedValue | None
    order: Order | None = None
    candidate: Candidate | None = None


def obvious_choice(sides: Sequence[ComparedPerson]) -> str:
    """Return the only suggestion if it agrees with the person on the result, else an empty text."""
    if len(sides) != 1 or any(
        (sides[0].name.differs, sides[0].dob.differs, sides[0].gender.differs)
    ):
        return ""
    return sides[0].choice


def compare_candidates(
    item: UnmatchedResult, candidates: Sequence[Candidate]
) -> list[ComparedPerson]:
    """Compare the suggestions, in the service's order: three queries."""
    orders = Order.objects.defer("record").in_bulk(
        [candidate.order_id for candidate in candidates if candidate.order_id]
    )
    people = Patient.objects.defer("record").in_bulk(
        [candidate.user_id for candidate in candidates if candidate.user_id]
    )
    labs = Lab.names()
    return [
        _compare_candidate(
            item,
            candidate,
            orders.get(candidate.order_id) if candidate.order_id else None,
            people.get(candidate.user_id) if candidate.user_id else None,
            labs,
        )
        for candidate in candidates
    ]


def compare_patients(item: UnmatchedResult, people: Sequence[Patient]) -> list[ComparedPerson]:
    """Compare patients that staff searched for."""
    return [
        ComparedPerson(
            choice=f"{PATIENT_PREFIX}{person.pk}",
            user_id=person.pk,
            name=_name(item, person.first_name, person.last_name),
            dob=_birth_date(item, person.dob),
            gender=_gender(item, person.gender),
            lab=None,
        )
        for person in people
    ]


def _compare_candidate(
    item: UnmatchedResult,
    candidate: Candidate,
    order: Order | None,
    person: Patient | None,
    labs: Mapping[str, str],
) -> ComparedPerson:
    """Compare the details of the order, or of the patient if there is no order."""
    if order is not None:
        first, last = order.patient_first_name, order.patient_last_name
        born, gender = order.patient_dob, order.patient_gender
    elif person is not None:
        first, last, born, gender = (
            person.first_name,
            person.last_name,
            person.dob,
            person.gender,
        )
    else:
        first, last, born, gender = "", "", None, ""
    lab = order.lab_slug if order is not None else None
    return ComparedPerson(
        choice=choice_of(candidate),
        user_id=candidate.user_id,
        name=_name(item, first, last),
        dob=_birth_date(item, born),
        gender=_gender(item, gender),
        lab=ComparedValue(labs.get(lab, lab), bool(item.lab_slug and lab != item.lab_slug))
        if lab
        else None,
        order=order,
        candidate=candidate,
    )


def _name(item: UnmatchedResult, first: str, last: str) -> ComparedValue:
    return ComparedValue(
        " ".join(part for part in (first, last) if part),
        fold(first, last) != fold(item.first_name, item.last_name)
        and compare_name_parts(item.first_name, item.last_name, first, last) is not Agreement.SAME,
    )


def _birth_date(item: UnmatchedResult, dob: date | None) -> ComparedValue:
    return ComparedValue(dob, dob != item.dob)


def _gender(item: UnmatchedResult, gender: str) -> ComparedValue:
    is_comparable = item.gender and gender and "unknown" not in (item.gender, gender)
    return ComparedValue(gender, bool(is_comparable and fold(gender) != fold(item.gender)))
