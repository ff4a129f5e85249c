"""The page of an unmatched result, where staff decide about it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_list, record_view
from backoffice.outbox.command import Command
from orders.commands.unmatched import AcceptResult, ResolveResult, resolution_text
from orders.models import Order
from orders.models.unmatched_result import UnmatchedResult
from orders.unmatched.comparison import compare_candidates, compare_patients, obvious_choice
from orders.unmatched.forms import ACTIONS, DecisionForm
from patients.models import Patient
from patients.search_text import parse_search_text

MAX_PATIENTS: Final = 8
"""Most patients that a search shows. If there are more, staff type more letters."""


@requires("orders.view", "patients.view")
@require_http_methods(["GET", "HEAD", "POST"])
def result(request: HttpRequest, result_id: UUID) -> HttpResponse:
    """Show one result: the person on it, possible patients, and possible actions.

    The search for a patient is a POST like the decision, so that no URL has a name.
    """
    item = get_object_or_404(UnmatchedResult, pk=result_id)
    candidates = list(item.candidates.order_by("position"))
    if request.method == "POST" and not may(request.user, "results.match"):
        raise PermissionDenied
    sides = compare_candidates(item, candidates)
    form = DecisionForm.from_request(
        request, item=item, candidates=candidates, obvious=obvious_choice(sides)
    )
    searching = "search" in request.POST
    if searching:
        form.errors.clear()  # A search is not a decision.
    elif request.method == "POST" and form.is_valid():
        if form.enqueue(request, _command(item, form)) is not None:
            return redirect("unmatched:detail", item.pk)
        item.refresh_from_db()
    word = request.POST.get("find", "").replace("\x00", "").strip()[:100]
    people = compare_patients(item, _people(word, form)) if request.POST else []
    context = {
        **_card(item, form),
        "sides": sides,
        "form": form,
        "find": word,
        "searching": searching,
        "people": people,
    }
    if searching:
        matches = [person.user_id for person in people]
        record_list(request, "patient", matches, matches, searched=True)
    patient_ids = {side.user_id for side in (*sides, *people)}
    record_view(request, "unmatched result", [item.pk], {*patient_ids, item.resolved_user_id})
    failed = request.method == "POST" and not searching
    return render(request, "unmatched/detail.html", context, status=422 if failed else 200)


def _command(item: UnmatchedResult, form: DecisionForm) -> Command:
    values = form.cleaned_data
    note = values["note"] or None
    if values["action"] != "accept":
        return ResolveResult(result_id=item.pk, action=values["action"], note=note)
    return AcceptResult(
        result_id=item.pk, order_id=values["order_id"], user_id=values["user_id"], note=note
    )


def _card(item: UnmatchedResult, form: DecisionForm) -> dict[str, object]:
    resolved_order = None
    if item.resolved_order_id is not None:
        resolved_order = Order.objects.defer("record").filter(pk=item.resolved_order_id).first()
    return {
        "item": item,
        "chosen": form["choice"].value() or form.obvious,
        "actions": [(a, gettext(ACTIONS[a])) for a in ACTIONS if a in item.allowed_actions],
        "resolution_text": ""
        if item.is_pending
        else resolution_text(item.status, item.resolution_action),
        "resolved_order": resolved_order,
    }


def _people(word: str, form: DecisionForm) -> list[Patient]:
    """Return patients by name, birth date, email or phone, except the suggested ones."""
    if not word:
        return []
    patients = Patient.objects.defer("record").filter(missing_since=None)
    patients = patients.identified_by(parse_search_text(word))
    suggested = {candidate.user_id for candidate in form.candidates.values() if candidate.user_id}
    return list(patients.exclude(pk__in=suggested).order_by("name_key", "pk")[:MAX_PATIENTS])
