"""The page of one order."""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_view
from backoffice.core.prepared_queries import by_key, prepared, where
from backoffice.core.vocabulary.interpretations import RANK
from backoffice.mirror.models import AS_RECEIVED
from labs.models import Lab
from orders.actions import order_actions
from orders.activity import MILESTONES, TABS, order_activity
from orders.documents.collection import DRAW_COMPLETED, collection_times, is_appointment_canceled
from orders.documents.kinds import WITH_RESULT, DocumentFacts
from orders.documents.views.documents import document_lines
from orders.exceptions.queue import group_of, is_handled
from orders.local_time import local_clock_of
from orders.models import (
    Appointment,
    Handling,
    Order,
    OrderEvent,
    Result,
    ResultMarker,
    Review,
    UsualTime,
    order_with_move,
)
from orders.models.order_queryset import LIST_COLUMNS
from orders.placing.requested_accounts import requested_account, transaction_rows
from orders.progress import current_step, is_finished, progress_steps
from orders.rules.result_identity import current_identity


@requires("orders.view")
@require_safe
@prepared()
def order_detail(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show one order: the next step, progress, events, visits, parcels, results, related orders."""
    order = _order(order_id)
    events = where(OrderEvent, "order_id = %s ORDER BY created_at, event_id", [order.pk])
    by_start = "order_id = %s ORDER BY superseded_at DESC, start_at DESC"
    visits = where(Appointment, by_start, [order.pk], exclude=AS_RECEIVED)
    visits.sort(key=lambda visit: visit.superseded_at is not None)
    in_transaction = "order_transaction_id = %s AND id <> %s ORDER BY created_at"
    key = order.order_transaction_id
    siblings = where(Order, in_transaction, [key, order.pk], LIST_COLUMNS) if key else []
    is_recreated = any(relative.origin == "recreation" for relative in (order, *siblings))
    sees_labs = may(request.user, "labs.view")
    shows_accounts = is_recreated and sees_labs
    result = by_key(Result, [order.pk], exclude=AS_RECEIVED).get(order.pk)
    sees_results = may(request.user, "results.view")
    markers = where(ResultMarker, "result_id = %s", [order.pk]) if sees_results else []
    record = order.record_at()
    now = timezone.now()
    show = request.GET.get("stream", MILESTONES)
    if show not in TABS:
        raise BadRequest(gettext("There is no such view."))
    standing = next((visit for visit in visits if visit.superseded_at is None), None)
    exception = group_of(order, now)
    handling = Handling.objects.filter(pk=order.pk).select_related("by").first()
    handled = exception != "" and is_handled(order, handling, now)
    reviews = Review.objects.filter(pk=order.pk).select_related("signer")
    review = reviews.first() if result is not None else None
    signed = review is not None and review.signer is not None and not review.in_queue
    turn = current_step(order, events, now, UsualTime.for_order(order))

    record_view(
        request,
        "order",
        [order.pk, *(sibling.pk for sibling in siblings)],
        [
            order.user_id,
            order.moved_from if order.move_waits else None,
            *(sibling.user_id for sibling in siblings),
        ],
    )
    test = order.record_at("lab_test")
    booked = (
        standing
        if standing and standing.start_at and not is_appointment_canceled(standing)
        else None
    )
    draws = [event.created_at for event in events if event.low_level_status == DRAW_COMPLETED]
    draw_by_order = {order.pk: draws[-1]} if draws else {}
    reported = {order.pk: result.date_collected} if result else {}
    facts = DocumentFacts(
        order,
        result is not None,
        1 + len(siblings),
        result is not None
        or any(relative.low_level_status in WITH_RESULT for relative in siblings),
        booked,
        collection_times(draw_by_order, reported, {order.pk: booked} if booked else {}).get(
            order.pk
        ),
        False if test.get("has_collection_instructions") is False else None,
    )
    context = {
        "order": order,
        "turn": replace(turn, is_handled=handled, is_signed=signed),
        "place": local_clock_of(order, standing),
        "exception": exception if may(request.user, "exceptions.work") else "",
        "handling": handling,
        "nodes": progress_steps(order, events, standing is not None and not standing.has_ended),
        "over": is_finished(order),
        "lab": next(iter(where(Lab, "slug = %s", [order.lab_slug], ("name",))), None),
        "activity": order_activity(
            order,
            events,
            show,
            notes=may(request.user, "patients.view"),
            sees_changes=may(request.user, "patients.view", "commands.view"),
            results=sees_results,
        ),
        "streams": [(key, label, key == show) for key, label in TABS.items()],
        "visits": visits,
        "transaction": transaction_rows(order, siblings, shows_accounts) if siblings else [],
        "shows_accounts": shows_accounts,
        "requested": requested_account(order) if sees_labs else None,
        "result": result,
        "review": review,
        "identity": current_identity(order.pk) if review and review.names_somebody_else else None,
        "markers": _ranked(markers),
        "missing": [marker for marker in markers if marker.is_missing],
        "shipment": order.record_at("details", "data", "shipment"),
        "address": order.record_at("patient_address"),
        "contact": order.record_at("patient_details"),
        "physician": order.record_at("physician"),
        "notes": record.get("clinical_notes") or record.get("notes"),
        "icd_codes": record.get("icd_codes") or [],
        "raw": order.pretty() if may(request.user, "records.view") else None,
        "by_name": may(request.user, "patients.view"),
        "sees_results": sees_results,
        "actions": order_actions(order, request.user),
        "documents": document_lines(facts, request.user),
    }
    return render(request, "orders/detail.html", context)


def _order(order_id: UUID) -> Order:
    try:
        return order_with_move(order_id)
    except Order.DoesNotExist as error:
        raise Http404 from error


def _ranked(markers: Iterable[ResultMarker]) -> list[ResultMarker]:
    """Return the markers that came back, worst first, then in the order of the lab.

    Markers that are not interpreted have the rank of abnormal ones.
    """
    returned = [marker for marker in markers if not marker.is_missing]
    return sorted(
        returned, key=lambda marker: (RANK.get(marker.interpretation, 1), marker.position)
    )
