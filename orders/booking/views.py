"""Pages that book, reschedule and cancel an appointment. They also open as drawers over the order.

A lookup (another week, another address) is a POST like a booking, because the form has personal
data, which no URL may have. Only the button that books makes a command.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import Any, Final, TypeVar
from uuid import UUID

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import get_language, gettext
from django.views.decorators.http import require_http_methods, require_POST
from redis import RedisError

from backoffice.accounts.access import requires
from backoffice.audit.recording import record_view
from backoffice.core.service_client import service
from backoffice.outbox.command import Command
from backoffice.outbox.enqueueing import was_already_sent
from backoffice.outbox.forms import CommandForm
from backoffice.pages.hidden_answers import unshown
from backoffice.service import errors
from orders.booking import sites
from orders.booking.forms import (
    CancelAppointmentForm,
    CenterForm,
    HomeForm,
    MoveCenterForm,
    MoveHomeForm,
)
from orders.commands import (
    BookCenter,
    BookHomeAppointment,
    CancelAppointment,
    RequestAppointment,
    RescheduleAppointment,
)
from orders.models import Appointment, Order
from orders.rules import appointment_rules
from orders.rules.slots import PARTS, WEEKS, AppointmentPlace

BoundForm = TypeVar("BoundForm", bound=CommandForm)

METHODS: Final = ("GET", "HEAD", "POST")
BUTTONS: Final = ("look", "ask")
REASONS_CACHE_SECONDS: Final = 300
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
        return _page(request, order, None, hindrance=hindrance, title=gettext("Book a visit"))
    form = _form(request, order, None)
    form.is_booking = _is_booking(request)
    if _is_booking(request) and form.is_valid():
        command = _booking_command(request, order, form)
        if command is not None and form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, None, form, title=gettext("Book a visit"))


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def move(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Reschedule the active appointment. Its old time is valid until the new one is confirmed."""
    order, visit = (
        get_object_or_404(Order, pk=order_id),
        appointment_rules.active_appointment(order_id),
    )
    if _is_booking(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    title = gettext("Reschedule visit")
    if visit is None:
        return _page(
            request, order, None, hindrance=gettext("No visit to reschedule."), title=title
        )
    hindrance = appointment_rules.why_not_move(order, visit)
    if hindrance:
        return _page(request, order, visit, hindrance=hindrance, title=title)
    form = _form(request, order, visit)
    form.is_booking = _is_booking(request)
    if _is_booking(request) and form.is_valid() and (time := form.require_slot()):
        command = RescheduleAppointment(
            order_id=order.pk,
            user_id=order.user_id,
            visit_type=visit.type,
            appointment_id=form.cleaned_data["seen_id"],
            seen=form.cleaned_data["seen_start"],
            time=time,
            where=AppointmentPlace(address=form.address())
            if visit.type == appointment_rules.HOME and isinstance(form, HomeForm)
            else AppointmentPlace(lab=sites.order_lab_slug(order)),
            zone=visit.iana_timezone or "",
            notes=form.cleaned_data["notes"],
        )
        if form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, visit, form, title=title)


@requires("orders.view", "patients.view", "appointments.change")
@require_POST
def times(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Show the list of times for the filters of the form: a fragment."""
    order, visit = (
        get_object_or_404(Order, pk=order_id),
        appointment_rules.active_appointment(order_id),
    )
    form = _form(request, order, visit)
    context = {
        "order": order,
        "visit": visit,
        "form": form,
        "alone": True,
        **_picker_context(request, order, visit, form),
    }
    return render(request, "orders/booking/_times.html", context)


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Cancel the appointment. With `rebook`, book another one next: an order has one at a time."""
    order, visit = (
        get_object_or_404(Order, pk=order_id),
        appointment_rules.active_appointment(order_id),
    )
    if _is_booking(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    rebook = "rebook" in request.GET
    title = gettext("Cancel and rebook") if rebook else gettext("Cancel visit")
    hindrance = (
        gettext("No visit to cancel.") if visit is None else appointment_rules.why_not_cancel(visit)
    )
    if visit is None or hindrance:
        return _page(request, order, visit, hindrance=hindrance, title=title, rebook=rebook)
    reasons = cancellation_reasons(visit.type)
    if reasons is None:
        return _page(
            request,
            order,
            visit,
            hindrance=gettext(sites.SLOW),
            title=title,
            rebook=rebook,
        )
    form = _bound_form(request, CancelAppointmentForm, reasons=reasons)
    if request.method == "POST" and form.is_valid():
        command = CancelAppointment(
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
    return _page(request, order, visit, form, title=title, rebook=rebook)


def cancellation_reasons(visit_type: str) -> list[tuple[str, str]] | None:
    """Return ids and names of the service's reasons; None if it does not answer."""
    key = f"cancellation-reasons:{visit_type}:{get_language()}"
    try:
        cached: list[tuple[str, str]] | None = cache.get(key)
    except (RedisError, OSError):
        cached = None
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
            reason.data.name
            if reason.data.is_refundable
            else gettext("%(reason)s (not refundable)") % {"reason": reason.data.name},
        )
        for reason in page.records
    ]
    with suppress(RedisError, OSError):
        cache.set(key, reasons, REASONS_CACHE_SECONDS)
    return reasons or None


def _is_booking(request: HttpRequest) -> bool:
    return request.method == "POST" and "look" not in request.POST


def _booking_command(
    request: HttpRequest, order: Order, form: HomeForm | CenterForm
) -> Command | None:
    """Return the command of a valid form. If no time was chosen, add an error and return None."""
    notes = form.cleaned_data["notes"]
    if isinstance(form, HomeForm):
        address = form.address()
        assert address is not None
        if provider := form.cleaned_data["ask"]:
            return RequestAppointment(
                order_id=order.pk,
                user_id=order.user_id,
                provider=provider,
                address=address,
                notes=notes,
            )
        if (time := form.require_slot()) is None:
            return None
        return BookHomeAppointment(
            order_id=order.pk, user_id=order.user_id, time=time, address=address, notes=notes
        )
    if (time := form.require_slot()) is None:
        return None
    site = request.POST.get(f"name-{time.site}", "") or time.site
    return BookCenter(
        order_id=order.pk,
        user_id=order.user_id,
        time=time,
        lab=sites.order_lab_slug(order),
        site=site[:100],
        notes=notes,
    )


def _form(request: HttpRequest, order: Order, visit: Appointment | None) -> HomeForm | CenterForm:
    notes = (visit.appointment_notes or "") if visit else ""
    if order.method == "at_home_phlebotomy":
        address = sites.visit_address(visit) if visit else sites.order_address(order)
        home_form = MoveHomeForm if visit else HomeForm
        return _bound_form(request, home_form, initial={**address, "notes": notes})
    zip_code = sites.order_address(order)["zip_code"][:5]
    initial = {"zip_code": zip_code, "radius": sites.NEAR, "notes": notes}
    return _bound_form(request, MoveCenterForm if visit else CenterForm, initial=initial)


def _bound_form(request: HttpRequest, kind: type[BoundForm], **options: Any) -> BoundForm:
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
    request: HttpRequest, order: Order, visit: Appointment | None, form: HomeForm | CenterForm
) -> dict[str, object]:
    """Return the lookups for the form, and the values that the page does not show now."""
    if isinstance(form, HomeForm):
        picker_data = sites.load_home_times(form, order, visit)
    else:
        picker_data = sites.load_center_times(form, order, visit)
    typed = dict(form.data.lists()) if isinstance(form.data, QueryDict) else {}
    chosen = form.time_filters().chosen
    place = f"name-{chosen.site}" if chosen is not None and chosen.site else ""
    picker: dict[str, object] = {
        "picker": picker_data,
        "parts": PARTS,
        "weeks": WEEKS,
        "home": isinstance(form, HomeForm),
        "apart_place": typed.get(place, [""])[-1],
    }
    shown_names = [name for name in typed if name.startswith("name-") and name != place]
    if not picker_data.trouble:
        shown_names += ["sites", "far_sites"]  # The list of centers shows both.
    elif picker_data.trouble == sites.NOT_ENABLED:
        shown_names.append("slot")  # No time can be booked, however often this is tried.
    context = {"order": order, "visit": visit, "form": form, **picker}
    page = render_to_string("orders/booking/_form.html", context, request=request)
    return {**picker, "unshown": unshown(typed, page, (*BUTTONS, *shown_names))}


def _page(
    request: HttpRequest,
    order: Order,
    visit: Appointment | None,
    form: HomeForm | CenterForm | CancelAppointmentForm | None = None,
    **more: object,
) -> HttpResponse:
    record_view(request, "order", [order.pk], [order.user_id])
    context: dict[str, object] = {
        "order": order,
        "visit": visit,
        "by_name": True,
        "warnings": appointment_rules.warnings(order, visit, timezone.now()),
        **more,
    }
    if form is not None:
        context["form"] = form
    if isinstance(form, HomeForm | CenterForm):
        context |= _picker_context(request, order, visit, form)
    status = 422 if _is_booking(request) else 200
    template = "cancel.html" if isinstance(form, CancelAppointmentForm) else "pick.html"
    return render(request, f"orders/booking/{template}", context, status=status)
