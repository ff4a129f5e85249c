"""The page with the delivery or the read behind each value of an order."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from backoffice.accounts.access import PERMISSIONS, may, requires
from backoffice.audit.recording import record_view
from backoffice.pages.lists.fields import response_status
from orders.models import Order, OrderEvent, OrderPatientChange, Result
from webhooks.event_list_rows import event_rows
from webhooks.provenance import (
    MAX_EVENTS,
    SourceFinder,
    appointments_of_order,
    record_histories,
    sourced_steps,
    sourced_values,
    stored_events,
)
from webhooks.record_history import URL_MOMENT_FORMAT, first_move_after, slider_stops
from webhooks.record_history_forms import MomentForm


@requires("orders.view")
@require_safe
def order_why(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show the sources of an order's status, result, appointments and steps.

    Also compare the record as it was known at the moment `at` with the current one.
    """
    order = Order.objects.defer("content_hash").filter(pk=order_id).first()
    if order is None:
        raise Http404
    history = list(OrderEvent.objects.filter(order_id=order.pk).order_by("created_at", "event_id"))
    visits = list(appointments_of_order(order))
    result = Result.objects.filter(pk=order.pk).only("as_of", "status", "missing_since").first()
    form = MomentForm(request.GET)
    valid = form.is_valid()
    typed = form.cleaned_data.get("at")
    rows = event_rows(stored_events(order, typed), by_name=False)
    granted = frozenset(name for name in PERMISSIONS if may(request.user, name))
    histories = record_histories(order, visits, result, rows, granted)
    stops = slider_stops(histories)
    moment = form.moment(stops) if valid else None
    if moment is not None and not form.shareable():
        address = reverse("events:why-order", args=[order.pk])
        return redirect(f"{address}?at={moment.strftime(URL_MOMENT_FORMAT)}")
    moves = (
        list(OrderPatientChange.objects.filter(order_id=order.pk)[:MAX_EVENTS]) if moment else []
    )
    move = first_move_after(order, moves, moment) if moment else None
    sources = SourceFinder(order, rows)
    moved_between = [patient for move in moves for patient in (move.before, move.after)]
    record_view(request, "order", [order.pk], [order.user_id, *moved_between])
    rows = rows[:MAX_EVENTS]
    now = timezone.now()
    context = {
        "order": order,
        "by_name": may(request.user, "patients.view"),
        "sees_events": may(request.user, "events.view"),
        "sourced_values": sourced_values(
            order,
            history,
            sources,
            result,
            [visit for visit in visits if visit.superseded_at is None],
            sees_results=may(request.user, "results.view"),
        ),
        "steps": sourced_steps(order, history, rows),
        "rows": rows,
        "more": len(rows) == MAX_EVENTS,
        "moment_form": MomentForm.showing(moment) if valid else form,
        "stops": stops,
        "moment": moment,
        "last": len(stops) - 1,
        "stop": max(sum(stop.at <= (moment or now) for stop in stops) - 1, 0),
        "now": now,
        "records": [history.at_moment(moment) for history in histories] if moment else [],
        "move": move,
        "body_days": settings.EVENT_BODY_DAYS,
    }
    return render(request, "orders/why.html", context, status=response_status(form))
