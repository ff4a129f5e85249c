"""The page of one event."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from backoffice.accounts.access import may, requires, roles_with
from backoffice.audit.recording import record_view
from orders.models import Order
from webhooks import payloads
from webhooks.event_list_rows import event_rows, is_about_order
from webhooks.models import Event


@requires("events.view")
@require_safe
def event_detail(request: HttpRequest, event_id: int) -> HttpResponse:
    """Show one event: its delivery, outcome and body, and the changes since the event before it."""
    event = event_or_404(event_id)
    values = may(request.user, "records.view")
    record_view(request, "event payload" if values else "event", [event.pk], [event.user_id])
    before = event.previous()
    body, cut = payloads.display_body(event, values=values)
    by_name = may(request.user, "patients.view")
    context = {
        "row": event_rows([event], by_name=by_name)[0],
        "event": event,
        "before": before,
        "changes": payloads.field_changes(payloads.data_of(before), payloads.data_of(event))
        if before is not None and before.body is not None and event.body is not None
        else None,
        "body": body,
        "cut": cut,
        "length": len(event.body) if event.body is not None else None,
        "values": values,
        "shown_to": roles_with("records.view"),
        "order": _related_order(event) if may(request.user, "orders.view") else None,
        "may_replay": may(request.user, "events.replay") and event.body is not None,
    }
    return render(request, "webhooks/detail.html", context)


def event_or_404(event_id: int) -> Event:
    try:
        return Event.objects.get(pk=event_id)
    except (Event.DoesNotExist, OverflowError) as error:
        raise Http404 from error


def _related_order(event: Event) -> Order | None:
    if not is_about_order(event):
        return None
    return Order.objects.filter(pk=event.subject_id).only("as_of").first()
