"""The tabs of a patient's page that show orders, results and activity."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_list, record_view
from orders.activity import MAX_ENTRIES, MILESTONES, TABS, patient_activity
from orders.models import Order, Result
from orders.patient_tabs.latest import latest_values
from patients.patient_page import patient_page_context
from patients.transactions import group_by_transaction

MAX_ROWS: Final = 200


@requires("patients.view", "orders.view")
@require_safe
def orders(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show all orders of a patient, grouped by transaction."""
    page = patient_page_context(request, patient_id)
    rows = Order.objects.filter(user=patient_id).select_related("order_transaction")
    rows = rows.defer("record", "content_hash", "order_transaction__record")
    recent = list(rows.order_by("-created_at", "-pk")[: MAX_ROWS + 1])
    shown_orders = recent[:MAX_ROWS]
    record_list(request, "order", [order.pk for order in shown_orders], [patient_id])
    context = {
        **page,
        "transactions": group_by_transaction(shown_orders),
        "order_count": len(shown_orders),
        "more_orders": len(recent) > MAX_ROWS,
        "sees_results": may(request.user, "results.view"),
    }
    return render(request, "patients/tabs/orders.html", context)


@requires("patients.view", "results.view")
@require_safe
def results(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show the latest value of every marker, and the results."""
    page = patient_page_context(request, patient_id)
    rows = Result.objects.filter(order__user=patient_id).select_related("order__review")
    rows = rows.defer("record", "content_hash", "order__record", "order__content_hash")
    recent = list(rows.order_by("-order__created_at")[: MAX_ROWS + 1])
    record_list(request, "result", [result.pk for result in recent], [patient_id])
    context = {
        **page,
        "latest": latest_values(patient_id),
        "results": recent[:MAX_ROWS],
        "more": len(recent) > MAX_ROWS,
        "sees_orders": may(request.user, "orders.view"),
    }
    return render(request, "patients/tabs/results.html", context)


@requires("patients.view")
@require_safe
def activity(request: HttpRequest, patient_id: UUID) -> HttpResponse:
    """Show what the service, its sources and staff did, as one list."""
    show = request.GET.get("show", MILESTONES)
    if show not in TABS:
        raise BadRequest("There is no such view of the activity.")
    page = patient_page_context(request, patient_id)
    record_view(request, "activity", [patient_id], [patient_id])
    entries = patient_activity(
        page["patient"],
        show,
        sees_changes=may(request.user, "commands.view"),
        orders=may(request.user, "orders.view"),
        results=may(request.user, "results.view"),
    )
    context = {
        **page,
        "activity": entries,
        "most": MAX_ENTRIES,
        "tabs": [(key, label, key == show) for key, label in TABS.items()],
    }
    return render(request, "patients/tabs/activity.html", context)
