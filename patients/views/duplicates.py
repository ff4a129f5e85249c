"""Possible duplicates of the person in a form, or of a stored person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_list
from backoffice.core.urls import parse_uuid
from patients.duplicates import DuplicateCandidate, TypedPerson, find_duplicate_candidates
from patients.models import Demographics, DifferentPeople, Patient
from patients.registration_forms import PersonForm, RegisterForm
from patients.search_keys import parse_birth_date


@requires("patients.view", "patients.change")
@require_POST
def duplicates(request: HttpRequest) -> HttpResponse:
    """Show possible duplicates of the person in the form: a fragment.

    It is a POST, so that no URL has details of a person.
    """
    form = PersonForm(request.POST)
    patient_id = parse_uuid(request.POST.get("patient", ""))
    candidates = find_duplicate_candidates(
        typed_person(request.POST), excluded_candidates(patient_id) if patient_id else ()
    )
    audit_duplicates(request, candidates)
    return render(request, "patients/_duplicates.html", duplicates_context(form, candidates))


def duplicates_context(
    form: PersonForm, candidates: Sequence[DuplicateCandidate]
) -> dict[str, object]:
    """Return the candidates, and the checked boxes of earlier candidates that are not shown now.

    These boxes apply again if the person types the earlier name again.
    """
    ticked = form.not_same()
    shown_ids = {candidate.person.pk for candidate in candidates}
    unshown = [("not_same", str(pk)) for pk in dict.fromkeys(ticked) if pk not in shown_ids]
    return {"candidates": candidates, "not_same": ticked, "unshown": unshown}


def typed_person(data: Mapping[str, str]) -> TypedPerson:
    """Return the person whose details are in form data."""
    return TypedPerson(
        first_name=data.get("first_name", "")[:100],
        last_name=data.get("last_name", "")[:100],
        dob=parse_birth_date(data.get("dob", "")[:40]),
        phone_number=data.get("phone_number", "")[:40],
        email=data.get("email", "")[:200],
    )


def stored_person(person: Demographics | Patient) -> TypedPerson:
    """Return the details of a stored person for the search for duplicates."""
    return TypedPerson(
        first_name=person.first_name,
        last_name=person.last_name,
        dob=person.dob,
        phone_number=person.phone_number,
        email=person.email,
    )


def duplicates_of(person: Demographics | Patient) -> list[DuplicateCandidate]:
    """Return the possible duplicates of a stored person."""
    return find_duplicate_candidates(stored_person(person), excluded_candidates(person.pk))


def excluded_candidates(patient_id: UUID) -> set[UUID]:
    """Return the patients that are no candidates: this one, and those declared to be different."""
    return {patient_id} | DifferentPeople.different_from(patient_id)


def unshown_duplicates(form: RegisterForm) -> list[DuplicateCandidate]:
    """Return the possible duplicates that were not on the submitted page."""
    shown_ids = {*form.shown_ids(), *form.not_same()}
    candidates = find_duplicate_candidates(typed_person(form.data))
    return [candidate for candidate in candidates if candidate.person.pk not in shown_ids]


def audit_duplicates(request: HttpRequest, candidates: list[DuplicateCandidate]) -> None:
    """Record that the user saw these patients."""
    if candidates:
        ids = [candidate.person.pk for candidate in candidates]
        record_list(request, "patient", ids, ids, searched=True)
