"""Pages of patients: look-up, and all that is known of one person."""

from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from backoffice import audit, vocabulary
from backoffice.access import may, requires
from backoffice.paging import Page, capped_count, page_of, place_of
from patients.forms import SORTS, PatientFilters, demographics_of
from patients.models import Demographics, Patient
from patients.registering_views import actions_of, done_but_connected

ORDERS_SHOWN: Final = 100
FINISHED: Final = (vocabulary.RESULT_IN, vocabulary.CLOSED)


@requires("patients.view")
@require_safe
def patient_list(request: HttpRequest) -> HttpResponse:
    """Patients, newest first or by name; one box finds them by whatever the caller gives."""
    filters = PatientFilters(request.GET)
    valid = filters.is_valid()
    found = Patient.objects.all()
    if not valid:
        found = found.none()
    elif filters.text:
        found = found.matching(filters.text)
    by_name = request.GET.get("order_key") == "name"
    page = _page(request, found, filters, by_name=by_name)
    people = demographics_of(page.rows)
    open_orders = _open_orders(page.rows)
    audit.listed(
        request,
        "patient",
        [patient.pk for patient in page.rows],
        [patient.pk for patient in page.rows],
        searched=bool(filters.text),
    )
    context = {
        "filters": filters,
        "page": page,
        "rows": [
            {
                "patient": patient,
                "person": people.get(patient.pk),
                "open_orders": open_orders.get(patient.pk, 0),
            }
            for patient in page.rows
        ],
        "total": capped_count(found),
        "sort": "name" if by_name else "created_on",
        "direction": "asc" if by_name else "desc",
    }
    return render(request, "patients/list.html", context, status=200 if valid else 400)


def _page(
    request: HttpRequest, found: QuerySet[Patient], filters: PatientFilters, *, by_name: bool
) -> Page[Patient]:
    """A page by age of the record, or by name; by name only those whose name is known."""
    place = place_of(request)
    size = filters.page_size
    columns = found.defer("record", "content_hash")
    if not by_name:
        return page_of(columns, SORTS["created_on"], size=size, **place)
    known = Demographics.objects.only("user_id", "name_key")
    if filters.text:
        known = known.filter(user__in=found)
    page = page_of(known, SORTS["name"], size=size, **place)
    patients = columns.in_bulk([person.pk for person in page.rows])
    rows = [patients[person.pk] for person in page.rows if person.pk in patients]
    return Page(rows, next=page.next, previous=page.previous)


def _open_orders(patients: list[Patient]) -> dict[UUID, int]:
    """How many orders of each patient are under way: one query."""
    rows = Patient.objects.filter(pk__in=[patient.pk for patient in patients])
    counted = rows.annotate(under_way=Count("orders", filter=~Q(orders__bucket__in=FINISHED)))
    return dict(counted.values_list("pk", "under_way"))


@requires("patients.view")
@require_safe
def patient_detail(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """One patient: who, insurance now and before, sources and their pulls, orders."""
    try:
        patient = Patient.objects.get(pk=patient_id)
    except Patient.DoesNotExist as error:
        raise Http404 from error
    person = Demographics.objects.filter(pk=patient_id).first()
    insurances = list(
        _related(patient, "insurances")
        .defer("record", "content_hash")
        .order_by("-is_primary", "-as_of")
    )
    orders = list(
        _related(patient, "orders")
        .select_related("order_transaction")
        .defer("record", "content_hash", "order_transaction__record")
        .order_by("-created_at", "-pk")[: ORDERS_SHOWN + 1]
    )
    shown = orders[:ORDERS_SHOWN]
    may_read_orders = may(request.user, "orders.view")
    audit.viewed(request, "patient", [patient.pk], [patient.pk])
    sources = _sources(patient)
    may_change = may(request.user, "patients.change")
    context = {
        "patient": patient,
        "actions": actions_of(patient, request.user),
        "may_change": may_change and not patient.missing_since,
        "person": person,
        "proxy": person.said("medical_proxy") if person else {},
        "current": [one for one in insurances if one.superseded_at is None],
        "earlier": [one for one in insurances if one.superseded_at is not None],
        "sources": sources,
        "transactions": _transactions(shown) if may_read_orders else [],
        "order_count": len(shown),
        "more_orders": len(orders) > ORDERS_SHOWN,
        "open_orders": sum(order.bucket not in FINISHED for order in shown),
        "sees_orders": may_read_orders,
        "raw": _raw(patient, person) if may(request.user, "records.view") else [],
        "by_name": True,
        "sees_results": may(request.user, "results.view"),
    }
    return render(request, "patients/detail.html", context)


def _related(patient: Patient, name: str) -> QuerySet[Any]:
    """Rows of an app above this one that point here, without importing it."""
    rows: QuerySet[Any] = getattr(patient, name).all()
    return rows


def _sources(patient: Patient) -> list[dict[str, Any]]:
    """Connected sources with the pulls of each; pulls without a connection come last."""
    pulls: dict[str, list[Any]] = {}
    rows = _related(patient, "historical_pulls").defer("record", "content_hash")
    for pull in rows.order_by("provider", "resource"):
        pulls.setdefault(pull.provider, []).append(pull)
    connections = _related(patient, "connections").defer("record", "content_hash").order_by("name")
    sources = [
        {"slug": one.slug, "name": one.name, "connection": one, "pulls": pulls.pop(one.slug, [])}
        for one in connections
    ]
    rest = [
        {"slug": slug, "name": slug, "connection": None, "pulls": found}
        for slug, found in pulls.items()
    ]
    asked = done_but_connected(
        patient.pk,
        {one.slug: one.created_on for one in connections if one.missing_since is None},
    )
    for source in sources:
        source["asked_to_end"] = asked.get(source["slug"])
    return sources + rest


def _transactions(orders: list[Any]) -> list[dict[str, Any]]:
    """Orders grouped by transaction, newest group first, first order of a group first."""
    groups: dict[Any, list[Any]] = {}
    for order in orders:
        groups.setdefault(order.order_transaction_id or order.pk, []).append(order)
    return [
        {"transaction": members[0].order_transaction, "orders": members[::-1]}
        for members in groups.values()
    ]


def _raw(patient: Patient, person: Demographics | None) -> list[tuple[str, str]]:
    """Records as received, indented for reading."""
    shown = [("User", patient.pretty())]
    if person:
        shown.append(("User information", person.pretty()))
    return shown
