"""System > Service check: the same list as `manage.py checkservice`, for administrators."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_entry
from backoffice.operations import service_check
from backoffice.operations.service_check import (
    DeliveryCheck,
    FindingOutcome,
    ResentEvent,
    ServiceAnswers,
)

PAGE_SECONDS: Final = 15.0
"""Limit in seconds for all calls together, for a service that answers slowly."""


@requires("service.check")
@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Run the checks, and show the problems and how to fix them. Changes nothing."""
    sent = _sent(request)
    with ServiceAnswers(PAGE_SECONDS) as answers:
        findings = service_check.findings(answers, DeliveryCheck(sent))
        endpoints = service_check.listed_endpoints(answers)
    counts = Counter(finding.outcome for finding in findings)
    context = {
        "findings": findings,
        "problems": counts[FindingOutcome.PROBLEM],
        "unchecked": counts[FindingOutcome.UNKNOWN],
        "sent": sent,
        "endpoints": endpoints,
    }
    return render(request, "operations/service_check.html", context)


@requires("service.check")
@require_POST
def send_event(request: HttpRequest) -> HttpResponseBase:
    """Have the service deliver the latest event of an order again; the page waits for it."""
    order = service_check.order_to_resend()
    if order is not None:
        record_entry(request, "change", "test event", ids=[order.pk], patients=[order.user_id])
    with ServiceAnswers(PAGE_SECONDS) as answers:
        try:
            sent = service_check.resend_event(answers, order)
        except service_check.CannotSend as error:
            messages.warning(request, str(error))
            return redirect("operations:service-check")
    query = urlencode({"order": str(sent.order_id), "asked_at": sent.asked_at.isoformat()})
    return redirect(f"{reverse('operations:service-check')}?{query}")


@requires("service.check")
@require_safe
def event(request: HttpRequest) -> HttpResponse:
    """Return the line of the test event. The page polls it until the event arrives or is late."""
    sent = _sent(request)
    context = {"finding": DeliveryCheck(sent).run(), "sent": sent}
    return render(request, "operations/_service_check_line.html", context)


def _sent(request: HttpRequest) -> ResentEvent | None:
    """Return the event that the URL names; None if it names none. Raises BadRequest."""
    order, asked_at = request.GET.get("order", ""), request.GET.get("asked_at", "")
    if not order and not asked_at:
        return None
    try:
        moment = datetime.fromisoformat(asked_at)
        event = ResentEvent(UUID(order), moment)
    except ValueError:
        raise BadRequest("The address names no event.") from None
    if moment.tzinfo is None:
        raise BadRequest("The address names no event.")
    return event
