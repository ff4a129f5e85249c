"""Pages of one patient: overview, insurance, viewers, and the note about different people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import may, requires, staff_user
from backoffice.audit import patient_viewers
from backoffice.audit.entry_list import AUDIT_LIST, COLUMNS
from backoffice.audit.recording import record_action, record_entry, record_view
from backoffice.core.prepared_queries import prepared
from backoffice.mirror.models import AS_RECEIVED
from backoffice.pages.paging.filtered_page import count_and_page
from backoffice.pages.paging.pages import Sort, page_position
from patients.actions import patient_actions
from patients.duplicates import DuplicateCandidate, TypedPerson, find_duplicate_candidates
from patients.models import Demographics, DifferentPeople, Insurance, Patient
from patients.patient_page import patient_page_context
from patients.sources import sources_of
from patients.transactions import group_by_transaction
from patients.views.duplicates import audit_duplicates

ORDERS_SHOWN: Final = 10
"""Most orders on the overview, open ones first. The orders tab has all of them."""
VIEWS_PER_PAGE: Final = 50
MAX_PRINTED: Final = 2_000
"""Most views that the printed sheet lists one by one."""
NEWEST_FIRST: Final = Sort(("at", "id"), descending=True)
VIEW_COLUMNS: Final = tuple(
    column for column in COLUMNS if column.key in ("at", "who", "did", "about", "ip")
)


@requires("patients.view")
@require_safe
@prepared()
def patient_detail(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the overview: orders, details, insurance, sources, notes, possible duplicates."""
    page = patient_page_context(request, patient_id)
    patient, person = page["patient"], page["person"]
    current = Insurance.in_force(patient)
    may_read_orders = may(request.user, "orders.view")
    orders = patient.orders_open_first(ORDERS_SHOWN + 1) if may_read_orders else []
    shown_orders = orders[:ORDERS_SHOWN]
    record_view(request, "patient", [patient.pk], [patient.pk])
    may_change = may(request.user, "patients.change")
    duplicates: list[DuplicateCandidate] = []
    if person is not None:
        details = TypedPerson.from_record(person)
        duplicates = find_duplicate_candidates(details, person.pk)
    audit_duplicates(request, duplicates)
    context = {
        **page,
        "actions": patient_actions(patient, staff_user(request)),
        "may_change": may_change and not patient.missing_since,
        "proxy": person.record_at("medical_proxy") if person else {},
        "current": current,
        "sources": sources_of(patient),
        "transactions": group_by_transaction(shown_orders),
        "order_count": len(shown_orders),
        "more_orders": len(orders) > ORDERS_SHOWN,
        "open_orders": patient.open_order_count() if may_read_orders else 0,
        "sees_orders": may_read_orders,
        "alike": duplicates,
        "raw": _raw(patient, person) if may(request.user, "records.view") else [],
        "sees_results": may(request.user, "results.view"),
    }
    return render(request, "patients/detail.html", context)


@requires("patients.view")
@require_safe
def insurance(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the insurance in force, and earlier ones."""
    page = patient_page_context(request, patient_id)
    rows = page["patient"].insurances.defer(*AS_RECEIVED).order_by("-is_primary", "-as_of")
    record_view(request, "insurance", [patient_id], [patient_id])
    context = {
        **page,
        "current": [row for row in rows if row.superseded_at is None],
        "earlier": [row for row in rows if row.superseded_at is not None],
        "may_change": may(request.user, "patients.change") and not page["patient"].missing_since,
    }
    return render(request, "patients/tabs/insurance.html", context)


@requires("audit.view")
@require_safe
def viewers(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show who viewed this record: a fragment, or a page of its own."""
    context = _viewers_context(request, patient_id)
    _, page = count_and_page(
        patient_viewers.views_of_patient(patient_id),
        AUDIT_LIST.visible_rows(request.user),
        NEWEST_FIRST,
        VIEWS_PER_PAGE,
        page_position(request),
    )
    record_view(request, "access log", [patient_id], [patient_id])
    context |= {"page": page, "columns": VIEW_COLUMNS}
    is_fragment = request.headers.get("HX-Request") == "true"
    template = "patients/_viewers.html" if is_fragment else "patients/tabs/viewers.html"
    return render(request, template, context)


@requires("audit.view")
@require_safe
def viewers_sheet(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Print the viewers for a patient who asks: all people, and single views."""
    context = _viewers_context(request, patient_id)
    # Read before the entry of this print, which is none of the views.
    rows = patient_viewers.views_of_patient(patient_id).order_by("-at", "-pk")
    views = list(rows[:MAX_PRINTED])
    record_entry(request, "print", "access log", ids=[patient_id], patients=[patient_id])
    context |= {"looks": views, "columns": VIEW_COLUMNS}
    return render(request, "patients/viewers_sheet.html", context)


def _viewers_context(request: HttpRequest, patient_id: UUID) -> dict[str, object]:
    """Return the viewers. Users who may not view patients get no name, only the id."""
    page: Mapping[str, object] = patient_page_context(request, patient_id)
    if not may(request.user, "patients.view"):
        page = {**page, "person": None, "named": None, "patient_tabs": []}
    people = patient_viewers.viewers_of_patient(patient_id)
    total = sum(person.all for person in people)
    return {**page, "people": people, "total": total, "most": MAX_PRINTED}


@requires("patients.view", "patients.change")
@require_POST
def different(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Record that another patient is a different person. It applies to both patients."""
    try:
        other = UUID(request.POST.get("other", ""))
    except ValueError:
        raise BadRequest(gettext("Choose the other patient.")) from None
    if Patient.objects.filter(pk__in=[patient_id, other]).count() != 2:
        raise Http404
    with transaction.atomic():
        DifferentPeople.declare(patient_id, [other])
        record_action(request, "not the same person", [patient_id, other], [patient_id, other])
    messages.success(request, gettext("Marked as not the same person."))
    return redirect("patients:detail", patient_id)


def _raw(patient: Patient, person: Demographics | None) -> list[tuple[str, str]]:
    """Return the records as received, indented, with their labels."""
    records = [(gettext("User"), patient.pretty())]
    if person:
        records.append((gettext("User information"), person.pretty()))
    return records
