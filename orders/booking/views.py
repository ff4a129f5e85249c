"""Pages that book, reschedule and cancel an appointment. They also open as drawers over the order.

A lookup (another week, another address) is a POST like a booking, because the form has personal
data, which no URL may have. Only the button that books makes a command.
"""

from __future__ import annotations

from datetime import date
from typing import Any, Final
from uuid import UUID

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_view
from backoffice.core.service_client import service
from backoffice.outbox.command import Command
from backoffice.outbox.enqueueing import was_already_sent
from backoffice.pages.hidden_answers import unshown
from backoffice.service import errors
from orders.booking import sites
from orders.booking.forms import (
    CancelVisitForm,
    CenterForm,
    HomeForm,
    MoveCenterForm,
    MoveHomeForm,
)
from orders.commands import BookCenter, BookVisit, CancelVisit, RequestVisit, RescheduleVisit
from orders.models import Appointment, Order
from orders.rules import appointment_rules
from orders.rules.slots import PARTS, WEEKS, VisitPlace

METHODS: Final = ("GET", "HEAD", "POST")
BUTTONS: Final = ("look", "ask")
REASONS_KEPT: Final = 300
"""Seconds for which a list of cancellation reasons is cached."""


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def book(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Book the first appointment of an order, at home or at a center."""
    order = get_object_or_404(Order, pk=order_id)
    if _is_booking(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    hindrance = appointment_rules.why_not_book(order)
    if hindrance:
        return _page(request, order, None, {"hindrance": hindrance, "title": "Book a visit"})
    form = _form(request, order, None)
    form.is_booking = _is_booking(request)
    if _is_booking(request) and form.is_valid():
        command = _booking_command(request, order, form)
        if command is not None and form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, None, {"form": form, "title": "Book a visit", "verb": "Book"})


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def move(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Reschedule the active appointment. Its old time is valid until the new one is confirmed."""
    order, visit = get_object_or_404(Order, pk=order_id), appointment_rules.active_visit(order_id)
    if _is_booking(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    title = {"title": "Reschedule"}
    if visit is None:
        return _page(request, order, None, {"hindrance": "There is no visit to move.", **title})
    hindrance = appointment_rules.why_not_move(order, visit)
    if hindrance:
        return _page(request, order, visit, {"hindrance": hindrance, **title})
    form = _form(request, order, visit)
    form.is_booking = _is_booking(request)
    if _is_booking(request) and form.is_valid() and (time := form.require_slot()):
        home = visit.type == appointment_rules.HOME
        command = RescheduleVisit(
            order_id=order.pk,
            user_id=order.user_id,
            visit_type=visit.type,
            appointment_id=form.cleaned_data["seen_id"],
            seen=form.cleaned_data["seen_start"],
            time=time,
            where=VisitPlace(address=form.address())
            if home
            else VisitPlace(lab=sites.order_lab_slug(order)),
            zone=visit.iana_timezone or "",
            notes=form.cleaned_data["notes"],
        )
        if form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, visit, {"form": form, **title, "verb": "Confirm"})


@requires("orders.view", "patients.view", "appointments.change")
@require_POST
def times(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show the list of times for the filters of the form: a fragment."""
    order, visit = get_object_or_404(Order, pk=order_id), appointment_rules.active_visit(order_id)
    form = _form(request, order, visit)
    verb = "Confirm" if visit else "Book"
    context = {"order": order, "visit": visit, "form": form, "verb": verb, "alone": True}
    context |= _picker_context(request, order, visit, form)
    return render(request, "orders/booking/_times.html", context)


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Cancel the appointment. With `rebook`, book another one next: an order has one at a time."""
    order, visit = get_object_or_404(Order, pk=order_id), appointment_rules.active_visit(order_id)
    if _is_booking(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    rebook = "rebook" in request.GET
    title = "Cancel and rebook" if rebook else "Cancel the visit"
    context: dict[str, Any] = {"title": title, "verb": title, "rebook": rebook}
    hindrance = (
        "There is no visit to cancel." if visit is None else appointment_rules.why_not_cancel(visit)
    )
    if visit is None or hindrance:
        return _page(request, order, visit, {**context, "hindrance": hindrance})
    reasons = cancellation_reasons(visit.type)
    if reasons is None:
        return _page(request, order, visit, {**context, "trouble": sites.SLOW})
    form = _bound_form(request, CancelVisitForm, reasons=reasons)
    if request.method == "POST" and form.is_valid():
        command = CancelVisit(
            order_id=order.pk,
            user_id=order.user_id,
            visit_type=visit.type,
            appointment_id=form.cleaned_data["seen_id"],
            seen=form.cleaned_data["seen_start"],
            reason_id=UUID(form.cleaned_data["reason"]),
            notes=form.cleaned_data["notes"],
            rebook=rebook,
        )
        if form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, visit, {**context, "form": form})


def cancellation_reasons(visit_type: str) -> list[tuple[str, str]] | None:
    """Return ids and names of the service's reasons; None if it does not answer."""
    key = f"cancellation-reasons:{visit_type}"
    cached: list[tuple[str, str]] | None = _cached(key)
    if cached:
        return cached
    calls = service().within(sites.SECONDS).appointments
    try:
        if visit_type == appointment_rules.HOME:
            page = calls.phlebotomy_cancellation_reasons()
        else:
            page = calls.psc_cancellation_reasons()
    except errors.ServiceError:
        return None
    reasons = [
        (
            str(reason.data.id),
            reason.data.name + ("" if reason.data.is_refundable else " (not refundable)"),
        )
        for reason in page.records
    ]
    _cache(key, reasons)
    return reasons or None


def _cached(key: str) -> Any:
    try:
        return cache.get(key)
    except Exception:  # Redis may be unavailable. Then the service is asked.
        return None


def _cache(key: str, value: Any) -> None:
    try:
        cache.set(key, value, REASONS_KEPT)
    except Exception:
        return


def _is_booking(request: HttpRequest) -> bool:
    return request.method == "POST" and "look" not in request.POST


def _booking_command(request: HttpRequest, order: Order, form: Any) -> Command | None:
    """Return the command of a valid form. If no time was chosen, add an error and return None."""
    order_ids: dict[str, Any] = {"order_id": order.pk, "user_id": order.user_id}
    notes = form.cleaned_data["notes"]
    if order.method == "at_home_phlebotomy" and request.POST.get("ask") == "request":
        provider = form.cleaned_data["provider"]
        if not provider:
            form.add_error(None, "Choose who is to call the patient.")
            return None
        return RequestVisit(**order_ids, provider=provider, address=form.address(), notes=notes)
    time = form.require_slot()
    if time is None:
        return None
    if order.method == "at_home_phlebotomy":
        return BookVisit(**order_ids, time=time, address=form.address(), notes=notes)
    site = request.POST.get(f"name-{time.site}", "") or time.site
    return BookCenter(
        **order_ids, time=time, lab=sites.order_lab_slug(order), site=site[:100], notes=notes
    )


def _form(request: HttpRequest, order: Order, visit: Appointment | None) -> Any:
    if order.method == "at_home_phlebotomy":
        kind: Any = MoveHomeForm if visit else HomeForm
        initial = sites.visit_address(visit) if visit else sites.order_address(order)
    else:
        kind = MoveCenterForm if visit else CenterForm
        initial = {"zip_code": sites.order_address(order)["zip_code"][:5], "radius": sites.NEAR}
    initial["notes"] = (visit.appointment_notes or "") if visit else ""
    return _bound_form(request, kind, initial=initial)


def _bound_form(request: HttpRequest, kind: Any, **options: Any) -> Any:
    """Return the form as submitted, as it was for a refused command (`?again=`), or new."""
    if request.method == "POST":
        data = request.POST.copy()
        day = str(data.get("look", ""))
        if _is_day(day):
            data["start_date"] = day
        return kind(data, **options)
    return kind.from_request(request, **options)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _picker_context(
    request: HttpRequest, order: Order, visit: Appointment | None, form: Any
) -> dict[str, Any]:
    """Return the lookups for the form, and the values that the page does not show now."""
    if isinstance(form, HomeForm):
        picker_data = sites.load_home_times(form, order, visit)
    elif isinstance(form, CenterForm):
        picker_data = sites.load_center_times(form, order, visit)
    else:
        return {}
    picker: dict[str, Any] = {
        "picker": picker_data,
        "parts": PARTS,
        "weeks": WEEKS,
        "home": isinstance(form, HomeForm),
    }
    typed = dict(form.data.lists()) if form.is_bound else {}
    chosen = form.time_filters().chosen
    place = f"name-{chosen.site}" if chosen is not None and chosen.site else ""
    picker["apart_place"] = typed.get(place, [""])[-1]
    names = [name for name in typed if name.startswith("name-") and name != place]
    if not picker_data.trouble:
        names += ["sites", "far_sites"]  # The list of centers shows both.
    elif picker_data.trouble == sites.NOT_ENABLED:
        names.append("slot")  # No time can be booked, however often this is tried.
    context = {"order": order, "visit": visit, "form": form, **picker}
    page = render_to_string("orders/booking/_form.html", context, request=request)
    return {**picker, "unshown": unshown(typed, page, (*BUTTONS, *names))}


def _page(
    request: HttpRequest, order: Order, visit: Appointment | None, more: dict[str, Any]
) -> HttpResponse:
    record_view(request, "order", [order.pk], [order.user_id])
    form = more.get("form")
    context = {
        "order": order,
        "visit": visit,
        "by_name": True,
        "warnings": appointment_rules.warnings(order, visit, timezone.now()),
        **(_picker_context(request, order, visit, form) if form is not None else {}),
        **more,
    }
    status = 422 if _is_booking(request) else 200
    template = "cancel.html" if isinstance(form, CancelVisitForm) else "pick.html"
    return render(request, f"orders/booking/{template}", context, status=status)
