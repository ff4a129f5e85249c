"""Pages that change an existing order.

Each page shows the consequences, asks for confirmation, and then redirects to the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_safe

from backoffice.accounts.access import may, requires
from backoffice.audit.recording import record_view
from backoffice.core import vocabulary
from backoffice.outbox.command import Command
from backoffice.outbox.enqueueing import was_already_sent
from backoffice.outbox.forms import CommandForm
from orders.booking.views import cancellation_reasons
from orders.cancellation_preview import cancellation_preview
from orders.change_forms import ActivationForm, CancelForm, MessagesForm, SimulateForm
from orders.commands import (
    CancelAppointment,
    CancelOrder,
    ChangeActivation,
    CompleteDraw,
    ResendEvents,
    Simulate,
    SwitchMessages,
)
from orders.commands.order_changes import SIMULATED_STATUSES
from orders.models import Appointment, Order
from orders.text_messages import messages_on, state_words

METHODS = ("GET", "HEAD", "POST")


@requires("orders.view", "orders.change")
@require_http_methods(METHODS)
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Cancel an order after showing the consequences. On request, start a new order next."""
    order = get_object_or_404(Order, pk=order_id)
    if was_already_sent(request):
        return redirect("orders:detail", order.pk)
    preview = cancellation_preview(order)
    reasons: list[tuple[str, str]] | None = []
    if preview.visit is not None and may(request.user, "appointments.change"):
        reasons = cancellation_reasons(preview.visit.type)
    form = CancelForm.from_request(request, reasons=reasons)
    if request.method == "POST" and preview.possible and form.is_valid():
        wrong_lab = form.cleaned_data["why"] == "wrong_lab"
        command = CancelOrder(
            order_id=order.pk,
            user_id=order.user_id,
            wrong_lab=wrong_lab,
            reorder=request.POST.get("then") == "reorder",
            visit=_visit_cancellation(order, preview.visit, form),
        )
        if form.enqueue(request, command, form.reason_text()) is not None:
            return redirect("orders:detail", order.pk)
    more = {
        "preview": preview,
        "reorders": may(request.user, "orders.create", "patients.view"),
        "late": preview.visit is not None and not reasons,
    }
    title = gettext("Cancel order")
    return _page(request, order, form, title, title, more, "orders/cancel.html")


def _visit_cancellation(
    order: Order, visit: Appointment | None, form: CancelForm
) -> CancelAppointment | None:
    reason = form.cleaned_data.get("visit_reason")
    if visit is None or not reason or not form.cleaned_data.get("visit_too"):
        return None
    return CancelAppointment(
        order_id=order.pk,
        user_id=order.user_id,
        visit_type=visit.type,
        appointment_id=visit.pk,
        seen=visit.start_at,
        reason_id=UUID(reason),
        notes="The order was canceled.",
    )


@requires("orders.view", "orders.change")
@require_http_methods(METHODS)
def activation(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Change the date on which a scheduled order is dispatched."""
    order = get_object_or_404(Order, pk=order_id)
    form = ActivationForm.from_request(request, initial={"activate_by": order.activate_by})

    def command(values: dict[str, Any]) -> Command:
        return ChangeActivation(
            order_id=order.pk, user_id=order.user_id, activate_by=values["activate_by"]
        )

    words = gettext("Change release date"), gettext("Change date")
    return _enqueue_or_show(request, order, form, words, command)


@requires("orders.view", "orders.change")
@require_http_methods(METHODS)
def complete_draw(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Mark the sample of an on-site collection as drawn."""
    order = get_object_or_404(Order, pk=order_id)
    command = CompleteDraw(order_id=order.pk, user_id=order.user_id)
    words = gettext("Mark sample as drawn"), gettext("Mark as drawn")
    explanation = gettext("The order goes to the lab. This cannot be undone.")
    return _enqueue_or_show(
        request,
        order,
        CommandForm.from_request(request),
        words,
        lambda values: command,
        explanation,
    )


@requires("orders.view", "orders.change")
@require_http_methods(METHODS)
def resend(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Request that the service deliver the latest event of an order again."""
    order = get_object_or_404(Order, pk=order_id)
    command = ResendEvents(order_id=order.pk, user_id=order.user_id)
    words = gettext("Resend latest update"), gettext("Resend update")
    explanation = gettext(
        "The lab service sends its latest update about this order again. The order does not change."
    )
    return _enqueue_or_show(
        request,
        order,
        CommandForm.from_request(request),
        words,
        lambda values: command,
        explanation,
    )


@requires("orders.view", "orders.change")
@require_http_methods(METHODS)
def messages(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Turn the service's text messages about an order on or off."""
    order = get_object_or_404(Order, pk=order_id)
    is_on = None if was_already_sent(request) else messages_on(order)
    form = MessagesForm.from_request(request, is_on=is_on)

    def command(values: dict[str, Any]) -> Command:
        return SwitchMessages(
            order_id=order.pk,
            user_id=order.user_id,
            sms_enabled=values["sms_enabled"] == "on",
            seen=is_on,
        )

    explanation = gettext(
        "Now: %(state)s. These are the text messages that the lab service sends the patient about "
        "this order. Email and the clinic’s own settings do not change."
    ) % {"state": state_words(is_on)}
    words = gettext("Text messages"), gettext("Save")
    return _enqueue_or_show(request, order, form, words, command, explanation)


@requires("orders.view")
@require_safe
def message_state(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show whether text messages about an order are on: a fragment of its page."""
    order = get_object_or_404(Order, pk=order_id)
    context = {"words": state_words(messages_on(order))}
    return render(request, "orders/_message_state.html", context)


@requires("orders.view", "orders.simulate")
@require_http_methods(METHODS)
def simulate(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Request that the sandbox move an order to another status."""
    if settings.MANAGEMENT_ENV == "production":
        raise Http404
    order = get_object_or_404(Order, pk=order_id)
    statuses = [
        (
            status,
            gettext(vocabulary.order_term(vocabulary.low_level(status), order.method, []).label),
        )
        for status in SIMULATED_STATUSES.get(order.method, ())
    ]
    form = SimulateForm.from_request(request, statuses=statuses)

    def command(values: dict[str, Any]) -> Command:
        return Simulate(
            order_id=order.pk,
            user_id=order.user_id,
            final_status=values["final_status"] or None,
            interpretation=values["interpretation"],
            before=order.last_event_id,
        )

    words = gettext("Simulate"), gettext("Move order along")
    return _enqueue_or_show(request, order, form, words, command)


def _enqueue_or_show(
    request: HttpRequest,
    order: Order,
    form: CommandForm,
    words: tuple[str, str],
    command: Callable[[dict[str, Any]], Command],
    explanation: str = "",
) -> HttpResponse:
    """Enqueue the command made from a valid form and redirect to the order; else show the page.

    `words` are the title and the label of the button. `explanation` is what will happen.
    """
    if request.method == "POST" and (
        was_already_sent(request)
        or (form.is_valid() and form.enqueue(request, command(form.cleaned_data)) is not None)
    ):
        return redirect("orders:detail", order.pk)
    return _page(request, order, form, *words, {"says": explanation})


def _page(
    request: HttpRequest,
    order: Order,
    form: CommandForm,
    title: str,
    verb: str,
    more: Mapping[str, object] = MappingProxyType({}),
    template: str = "orders/change.html",
) -> HttpResponse:
    record_view(request, "order", [order.pk], [order.user_id])
    context = {
        "order": order,
        "form": form,
        "title": title,
        "verb": verb,
        "by_name": may(request.user, "patients.view"),
        **more,
    }
    status = 422 if form.is_bound and request.method == "POST" else 200
    return render(request, template, context, status=status)
