"""Whom a result names, beside whom it may belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from labs.models import Lab
from orders.models import Order
from orders.unmatched.forms import PATIENT, choice_of
from orders.unmatched.models import Candidate, UnmatchedResult
from patients.identity import Agreement, compare_name_parts
from patients.models import Patient
from patients.names import fold


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that is told of a person, and whether it is not what the result says."""

    value: Any
    differs: bool


@dataclass(frozen=True, slots=True)
class Compared:
    """A suggestion beside the result; `order` and `candidate` are None for a patient alone."""

    choice: str
    user_id: UUID | None
    name: Said
    dob: Said
    gender: Said
    lab: Said | None
    order: Order | None = None
    candidate: Candidate | None = None


def plain_choice(sides: Sequence[Compared]) -> str:
    """The only suggestion, where it is of the person whom the result names; empty otherwise."""
    if len(sides) != 1 or any(
        (sides[0].name.differs, sides[0].dob.differs, sides[0].gender.differs)
    ):
        return ""
    return sides[0].choice


def compared(item: UnmatchedResult, candidates: Sequence[Candidate]) -> list[Compared]:
    """The suggestions, as the service groups them: three queries."""
    orders = Order.objects.defer("record").in_bulk(
        [one.order_id for one in candidates if one.order_id]
    )
    people = Patient.objects.defer("record").in_bulk(
        [one.user_id for one in candidates if one.user_id]
    )
    labs = dict(
        Lab.objects.filter(slug__in={order.lab_slug for order in orders.values()}).values_list(
            "slug", "name"
        )
    )
    return [
        _one(
            item,
            one,
            orders.get(one.order_id) if one.order_id else None,
            people.get(one.user_id) if one.user_id else None,
            labs,
        )
        for one in candidates
    ]


def patients_beside(item: UnmatchedResult, people: Sequence[Patient]) -> list[Compared]:
    """Patients that somebody looked for."""
    return [
        Compared(
            choice=f"{PATIENT}{person.pk}",
            user_id=person.pk,
            name=_name(item, person.first_name, person.last_name),
            dob=_born(item, person.dob),
            gender=_sex(item, person.gender),
            lab=None,
        )
        for person in people
    ]


def _one(
    item: UnmatchedResult,
    candidate: Candidate,
    order: Order | None,
    person: Patient | None,
    labs: Mapping[str, str],
) -> Compared:
    """By what the order was placed with; by the patient's record where there is no order."""
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
    return Compared(
        choice=choice_of(candidate),
        user_id=candidate.user_id,
        name=_name(item, first, last),
        dob=_born(item, born),
        gender=_sex(item, gender),
        lab=Said(labs.get(lab, lab), bool(item.lab_slug and lab != item.lab_slug)) if lab else None,
        order=order,
        candidate=candidate,
    )


def _name(item: UnmatchedResult, first: str, last: str) -> Said:
    return Said(
        " ".join(part for part in (first, last) if part),
        fold(first, last) != fold(item.first_name, item.last_name)
        and compare_name_parts(item.first_name, item.last_name, first, last) is not Agreement.SAME,
    )


def _born(item: UnmatchedResult, dob: date | None) -> Said:
    return Said(dob, dob != item.dob)


def _sex(item: UnmatchedResult, gender: str) -> Said:
    known = item.gender and gender and "unknown" not in (item.gender, gender)
    return Said(gender, bool(known and fold(gender) != fold(item.gender)))
