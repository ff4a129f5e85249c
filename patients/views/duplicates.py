"""Possible duplicates of the person in a form, or of a stored person."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_list
from backoffice.core.urls import parse_uuid
from patients.duplicates import DuplicateCandidate, TypedPerson, find_duplicate_candidates
from patients.registration_forms import PersonForm, RegisterForm


@requires("patients.view", "patients.change")
@require_POST
def duplicates(request: HttpRequest) -> HttpResponse:
    """Show possible duplicates of the person in the form: a fragment.

    It is a POST, so that no URL has details of a person.
    """
    form = PersonForm(request.POST)
    patient_id = parse_uuid(request.POST.get("patient", ""))
    candidates = find_duplicate_candidates(TypedPerson.from_form(request.POST), patient_id)
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


def unshown_duplicates(form: RegisterForm) -> list[DuplicateCandidate]:
    """Return the possible duplicates that were not on the submitted page."""
    shown_ids = {*form.shown_ids(), *form.not_same()}
    candidates = find_duplicate_candidates(TypedPerson.from_form(form.data))
    return [candidate for candidate in candidates if candidate.person.pk not in shown_ids]


def audit_duplicates(request: HttpRequest, candidates: list[DuplicateCandidate]) -> None:
    """Record that the user saw these patients."""
    if candidates:
        ids = [candidate.person.pk for candidate in candidates]
        record_list(request, "patient", ids, ids, searched=True)
