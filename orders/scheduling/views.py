"""Pages that ask about a visit: book, move, cancel. Each opens as a drawer over the order, too.

Looking (another week, another address) is a POST like asking: what stands in the form is personal,
and stays out of addresses. Only the button that asks makes a command.
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

from backoffice import audit
from backoffice.core.access import requires
from backoffice.core.service_client import service
from backoffice.outbox import Command, was_already_sent
from backoffice.pages.hidden_answers import unshown
from backoffice.service import errors
from orders.commands import BookCenter, BookVisit, CancelVisit, MoveVisit, RequestVisit
from orders.models import Appointment, Order
from orders.scheduling import rules, sites
from orders.scheduling.forms import (
    CancelVisitForm,
    CenterForm,
    HomeForm,
    MoveCenterForm,
    MoveHomeForm,
)
from orders.scheduling.slots import PARTS, WEEKS, Place

METHODS: Final = ("GET", "HEAD", "POST")
BUTTONS: Final = ("look", "ask")
REASONS_KEPT: Final = 300
"""Seconds a list of cancellation reasons is used again."""


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def book(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """The first visit of an order: at home or at a center, as it is collected."""
    order = get_object_or_404(Order, pk=order_id)
    if _asks(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    hindrance = rules.why_not_book(order)
    if hindrance:
        return _page(request, order, None, {"hindrance": hindrance, "title": "Book a visit"})
    form = _form(request, order, None)
    form.asks = _asks(request)
    if _asks(request) and form.is_valid():
        command = _booking(request, order, form)
        if command is not None and form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, None, {"form": form, "title": "Book a visit", "verb": "Book"})


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def move(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Another time for the visit that stands; it stands until the new one is confirmed."""
    order, visit = get_object_or_404(Order, pk=order_id), rules.active_visit(order_id)
    if _asks(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    title = {"title": "Reschedule"}
    if visit is None:
        return _page(request, order, None, {"hindrance": "There is no visit to move.", **title})
    hindrance = rules.why_not_move(order, visit)
    if hindrance:
        return _page(request, order, visit, {"hindrance": hindrance, **title})
    form = _form(request, order, visit)
    form.asks = _asks(request)
    if _asks(request) and form.is_valid() and (time := form.need_slot()):
        home = visit.type == rules.HOME
        command = MoveVisit(
            order_id=order.pk,
            user_id=order.user_id,
            visit_type=visit.type,
            appointment_id=form.cleaned_data["seen_id"],
            seen=form.cleaned_data["seen_start"],
            time=time,
            where=Place(address=form.address()) if home else Place(lab=sites.lab_slug_of(order)),
            zone=visit.iana_timezone or "",
            notes=form.cleaned_data["notes"],
        )
        if form.enqueue(request, command) is not None:
            return redirect("orders:detail", order.pk)
    return _page(request, order, visit, {"form": form, **title, "verb": "Confirm"})


@requires("orders.view", "patients.view", "appointments.change")
@require_POST
def times(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """The list of times alone, as the form wishes: filters, another week, keys that ran out."""
    order, visit = get_object_or_404(Order, pk=order_id), rules.active_visit(order_id)
    form = _form(request, order, visit)
    verb = "Confirm" if visit else "Book"
    context = {"order": order, "visit": visit, "form": form, "verb": verb, "alone": True}
    context |= _looked_up(request, order, visit, form)
    return render(request, "orders/scheduling/_times.html", context)


@requires("orders.view", "patients.view", "appointments.change")
@require_http_methods(METHODS)
def cancel(request: HttpRequest, order_id: UUID) -> HttpResponse:
    """Cancel the visit; with `rebook`, to book anew: the service has one visit at a time."""
    order, visit = get_object_or_404(Order, pk=order_id), rules.active_visit(order_id)
    if _asks(request) and was_already_sent(request):
        return redirect("orders:detail", order.pk)
    rebook = "rebook" in request.GET
    title = "Cancel and rebook" if rebook else "Cancel the visit"
    context: dict[str, Any] = {"title": title, "verb": title, "rebook": rebook}
    hindrance = "There is no visit to cancel." if visit is None else rules.why_not_cancel(visit)
    if visit is None or hindrance:
        return _page(request, order, visit, {**context, "hindrance": hindrance})
    reasons = reasons_of(visit.type)
    if reasons is None:
        return _page(request, order, visit, {**context, "trouble": sites.SLOW})
    form = _answered(request, CancelVisitForm, reasons=reasons)
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


def reasons_of(visit_type: str) -> list[tuple[str, str]] | None:
    """Ids and words of the service's cancellation reasons; None where they cannot be had."""
    key = f"cancellation-reasons:{visit_type}"
    kept: list[tuple[str, str]] | None = _kept(key)
    if kept:
        return kept
    calls = service().within(sites.SECONDS).appointments
    try:
        if visit_type == rules.HOME:
            page = calls.phlebotomy_cancellation_reasons()
        else:
            page = calls.psc_cancellation_reasons()
    except errors.ServiceError:
        return None
    found = [
        (str(one.data.id), one.data.name + ("" if one.data.is_refundable else " (not refundable)"))
        for one in page.records
    ]
    _keep(key, found)
    return found or None


def _kept(key: str) -> Any:
    try:
        return cache.get(key)
    except Exception:  # Redis may be away: then the service is asked.
        return None


def _keep(key: str, value: Any) -> None:
    try:
        cache.set(key, value, REASONS_KEPT)
    except Exception:
        return


def _asks(request: HttpRequest) -> bool:
    return request.method == "POST" and "look" not in request.POST


def _booking(request: HttpRequest, order: Order, form: Any) -> Command | None:
    """The command of a valid form; None, and the form says so, where no time was chosen."""
    whose: dict[str, Any] = {"order_id": order.pk, "user_id": order.user_id}
    notes = form.cleaned_data["notes"]
    if order.method == "at_home_phlebotomy" and request.POST.get("ask") == "request":
        provider = form.cleaned_data["provider"]
        if not provider:
            form.add_error(None, "Choose who is to call the patient.")
            return None
        return RequestVisit(**whose, provider=provider, address=form.address(), notes=notes)
    time = form.need_slot()
    if time is None:
        return None
    if order.method == "at_home_phlebotomy":
        return BookVisit(**whose, time=time, address=form.address(), notes=notes)
    site = request.POST.get(f"name-{time.site}", "") or time.site
    return BookCenter(
        **whose, time=time, lab=sites.lab_slug_of(order), site=site[:100], notes=notes
    )


def _form(request: HttpRequest, order: Order, visit: Appointment | None) -> Any:
    if order.method == "at_home_phlebotomy":
        kind: Any = MoveHomeForm if visit else HomeForm
        initial = sites.address_of_visit(visit) if visit else sites.address_of(order)
    else:
        kind = MoveCenterForm if visit else CenterForm
        initial = {"zip_code": sites.address_of(order)["zip_code"][:5], "radius": sites.NEAR}
    initial["notes"] = (visit.appointment_notes or "") if visit else ""
    return _answered(request, kind, initial=initial)


def _answered(request: HttpRequest, kind: Any, **options: Any) -> Any:
    """The form as posted, as it was for a refused command (`?again=`), or new."""
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


def _looked_up(
    request: HttpRequest, order: Order, visit: Appointment | None, form: Any
) -> dict[str, Any]:
    """What the service offers, for the form as it is; and answers that it does not show now."""
    if isinstance(form, HomeForm):
        found = sites.at_home(form, order, visit)
    elif isinstance(form, CenterForm):
        found = sites.at_center(form, order, visit)
    else:
        return {}
    shown: dict[str, Any] = {
        "picker": found,
        "parts": PARTS,
        "weeks": WEEKS,
        "home": isinstance(form, HomeForm),
    }
    typed = dict(form.data.lists()) if form.is_bound else {}
    chosen = form.wishes().chosen
    place = f"name-{chosen.site}" if chosen is not None and chosen.site else ""
    shown["apart_place"] = typed.get(place, [""])[-1]
    names = [name for name in typed if name.startswith("name-") and name != place]
    if not found.trouble:
        names += ["sites", "far_sites"]  # The list of centers shows both.
    elif found.trouble == sites.NOT_ENABLED:
        names.append("slot")  # It cannot be booked, however often that is tried.
    context = {"order": order, "visit": visit, "form": form, **shown}
    page = render_to_string("orders/scheduling/_form.html", context, request=request)
    return {**shown, "unshown": unshown(typed, page, (*BUTTONS, *names))}


def _page(
    request: HttpRequest, order: Order, visit: Appointment | None, more: dict[str, Any]
) -> HttpResponse:
    audit.record_view(request, "order", [order.pk], [order.user_id])
    form = more.get("form")
    context = {
        "order": order,
        "visit": visit,
        "by_name": True,
        "warnings": rules.warnings(order, visit, timezone.now()),
        **(_looked_up(request, order, visit, form) if form is not None else {}),
        **more,
    }
    status = 422 if _asks(request) else 200
    template = "cancel.html" if isinstance(form, CancelVisitForm) else "pick.html"
    return render(request, f"orders/scheduling/{template}", context, status=status)
