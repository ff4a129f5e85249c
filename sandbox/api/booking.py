"""Booking, rescheduling and cancelling appointments (appointments.md 3, 4, 6 and 8)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from django.http import HttpResponse

from sandbox import booking_keys, bookings, clock, order_editing, slots
from sandbox.api import appointments, person_fields
from sandbox.api.availability import US_ADDRESS, check_address, check_enabled
from sandbox.api.calls import ApiRequest, Call
from sandbox.api.errors import Invalid, Refusal, malformed
from sandbox.api.idempotency import run_once
from sandbox.api.orders import find_order
from sandbox.api.params import Text, Uuid
from sandbox.api.request_bodies import (
    Field,
    flag,
    limited_text,
    parsed_by,
    read_body,
    schema,
    typed_field,
    whole,
)
from sandbox.api.responses import error_response, json_response
from sandbox.booking_keys import BookingKey
from sandbox.models import Appointment, Order, PscSite, ServiceArea, World
from sandbox.places import ONE_STATE_LAB
from sandbox.slots import ENDED_STATUSES, PHLEBOTOMY, PSC, Slot
from sandbox.states import AppointmentState, OrderState

ADULT = 18
METHODS = {PHLEBOTOMY: "at_home_phlebotomy", PSC: "walk_in_test"}
NOTES = Field("appointment_notes", limited_text(1000), nullable=True)
KEY = Field("booking_key", parsed_by(Text(min_length=1)), required=True)
INTEGER = {"type": "integer"}
BOOKING = (
    KEY,
    NOTES,
    Field("async_confirmation", flag, default=False, shape={"type": "boolean"}),
    Field(
        "sync_confirmation_timeout_millisecond",
        whole(1000, 10_000),
        nullable=True,
        default=2500,
        shape=INTEGER,
    ),
    Field(
        "async_confirmation_timeout_millisecond",
        whole(60_000, 172_800_000),
        nullable=True,
        shape=INTEGER,
    ),
)
PATIENCE = timedelta(minutes=15)
BOOKINGS_KEPT = timedelta(days=14)
RESCHEDULE = (KEY, NOTES)
REQUEST = (
    Field("address", fields=US_ADDRESS, required=True),
    Field("provider", person_fields.filled, required=True),
    NOTES,
)
# The kinds spell their cancel bodies differently: the keys of the reason and of the note.
CANCEL = {
    PHLEBOTOMY: (
        typed_field("cancellation_reason_id", Uuid(), required=True),
        Field("notes", limited_text(1000), nullable=True),
    ),
    PSC: (
        typed_field("cancellationReasonId", Uuid(), required=True),
        Field("note", limited_text(1000), nullable=True),
    ),
}
REASONS = {PHLEBOTOMY: appointments.PHLEBOTOMY_REASONS, PSC: appointments.PSC_REASONS}


def _answer(visit_id: str) -> HttpResponse:
    found = Appointment.objects.select_related("order").get(pk=visit_id)
    return json_response(appointments.appointment_record(found))


def _find_order(api_request: ApiRequest, kind: str) -> Order:
    """Return the order of the path; refuse one that is collected in another way."""
    order = find_order(api_request, "lab_test__lab")
    if order.method != METHODS[kind]:
        raise Refusal(400, f"The order is not of collection method {METHODS[kind]}")
    if kind == PSC:
        check_enabled(order.lab_test.lab)
    return order


def _read_key(text: str, order: Order, kind: str, now: datetime) -> BookingKey:
    try:
        key = booking_keys.read(World.objects.get(id=1).seed, text)
    except booking_keys.Unreadable:
        raise Refusal(400, "The booking key is not valid") from None
    if key.kind != kind:
        raise Refusal(400, "The booking key is for another kind of appointment")
    if kind == PSC and key.provider != order.lab_test.lab.slug:
        raise Refusal(400, "The booking key is for another lab")
    if kind == PHLEBOTOMY and key.code != order.zip_code[:5]:
        raise Refusal(400, "The booking key is for another address")
    if key.expires_at <= now:
        raise Refusal(400, "The booking key has expired")
    return key


def _site(key: BookingKey) -> PscSite:
    found = PscSite.objects.filter(lab__slug=key.provider, site_code=key.code, is_active=True)
    site = found.select_related("lab").first()
    if site is None:
        raise Refusal(400, f"Site code {key.code} is no longer active")
    return site


def _area(zip_code: str) -> ServiceArea:
    area = ServiceArea.objects.filter(pk=zip_code[:5]).first()
    if area is None:
        raise Refusal(400, "No phlebotomy provider serves this address")
    return area


def _claim(key: BookingKey, now: datetime, visit_id: str | None = None) -> Slot:
    """Return the slot of the key and lock it."""
    if key.kind == PSC:
        venue = slots.site_venue(_site(key))
    else:
        found = slots.phlebotomy_venue(_area(key.code))
        if found is None or found.provider != key.provider:
            raise Refusal(400, "The booking key is not valid")
        venue = found
    slot = slots.claim_slot(World.objects.get(id=1).seed, venue, key.start, now, visit_id)
    if slot is None:
        status = slots.OVERRIDES.conflict_status if key.kind == PSC else 400
        raise Refusal(status, "The appointment slot is no longer available")
    return slot


def _visit(order: OrderState, key: BookingKey) -> AppointmentState:
    """Return an appointment at the place of the key, without a time."""
    rng = order_editing.rng_for(order)
    if key.address is None:
        return bookings.site_appointment(order, rng, _site(key))
    return bookings.home_appointment(order, rng, _area(key.code), key.provider, key.address)


def _check_can_book(order: OrderState) -> None:
    low = order.low_level_status
    if low in bookings.WITH_APPOINTMENT or (
        order.appointment is not None and order.appointment.event_status not in ENDED_STATUSES
    ):
        raise Refusal(400, "The order already has an active appointment")
    if low in ("ordered", "awaiting_registration", "registered"):
        raise Refusal(400, "The order has no requisition yet")
    if low not in bookings.BOOKABLE or order.collected_at is not None:
        raise Refusal(400, f"No appointment can be booked for an order in {low}")


def _check_adult(order: OrderState, today: date) -> None:
    born = order.patient_dob
    if born is None:
        raise Refusal(400, "The order has no patient yet")
    age = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
    if age < ADULT:
        raise Refusal(400, "Phlebotomy appointments are not available to patients under 18")


def _check_only(order: OrderState, provider: str) -> None:
    """Refuse a second active appointment per patient and phlebotomy provider."""
    slots.lock_name("patient", order.user_id, provider)
    others = Appointment.objects.filter(
        user_id=order.user_id, type=PHLEBOTOMY, provider=provider, is_current=True
    ).exclude(event_status__in=ENDED_STATUSES)
    if others.exists():
        raise Refusal(400, "The patient already has an active appointment with this provider")


def book_visit(api_request: ApiRequest) -> HttpResponse:
    body = read_body(api_request.request, BOOKING)
    order = _find_order(api_request, PHLEBOTOMY)
    now = clock.now()
    with order_editing.edit_order(order.id) as state:
        _check_adult(state, now.date())
        _check_can_book(state)
        key = _read_key(body["booking_key"], order, PHLEBOTOMY, now)
        _check_only(state, key.provider)
        slot = _claim(key, now)
        visit = _visit(state, key)
        visit.appointment_notes = body["appointment_notes"]
        bookings.assign_slot(visit, slot)
        bookings.book(state, visit)
    return _answer(visit.id)


def book_center(api_request: ApiRequest) -> HttpResponse:
    body = read_body(api_request.request, BOOKING)
    order = _find_order(api_request, PSC)
    return run_once(api_request, "psc book", lambda: _book_center(order, body), BOOKINGS_KEPT)


def _book_center(order: Order, body: dict[str, Any]) -> HttpResponse:
    now = clock.now()
    waits = not body["async_confirmation"]
    silent = waits and slots.OVERRIDES.unanswered > 0
    with order_editing.edit_order(order.id) as state:
        _check_can_book(state)
        key = _read_key(body["booking_key"], order, PSC, now)
        slot = _claim(key, now)
        if silent:
            slots.OVERRIDES.unanswered -= 1
            if not slots.OVERRIDES.made:
                return _no_word()
        visit = _visit(state, key)
        visit.appointment_notes = body["appointment_notes"]
        bookings.assign_slot(visit, slot)
        if visit.provider == ONE_STATE_LAB:
            bookings.reserve(state, visit)
        elif waits:
            bookings.book(state, visit)
        else:
            wait = body["async_confirmation_timeout_millisecond"]
            patience = timedelta(milliseconds=wait) if wait else PATIENCE
            bookings.request_with_timeout(state, visit, patience)
    return _no_word() if silent else _answer(visit.id)


def _no_word() -> HttpResponse:
    return error_response(500, "The lab did not confirm the appointment in time")


def request_visit(api_request: ApiRequest) -> HttpResponse:
    """Request a visit; the phlebotomist agrees on a time with the patient later."""
    body = read_body(api_request.request, REQUEST)
    order = _find_order(api_request, PHLEBOTOMY)
    address, provider = body["address"], body["provider"]
    check_address(address)
    tiers: dict[str, list[str]] = _area(address["zip_code"]).phlebotomy
    if "appointment-request" not in tiers.get(provider, ()):
        raise Refusal(400, f"{provider} takes no appointment requests at this address")
    today = clock.now().date()
    with order_editing.edit_order(order.id) as state:
        _check_adult(state, today)
        _check_can_book(state)
        _check_only(state, provider)
        rng = order_editing.rng_for(state)
        visit = bookings.home_appointment(state, rng, _area(address["zip_code"]), provider, address)
        visit.appointment_notes = body["appointment_notes"]
        bookings.request_confirmation(state, visit)
    return _answer(visit.id)


def _standing(order: OrderState, kind: str) -> AppointmentState:
    """Return the appointment if it can still be changed; else refuse with the reason."""
    visit = order.appointment
    if visit is None or visit.type != kind:
        if not Appointment.objects.filter(order_id=order.number, type=kind).exists():
            raise Refusal(404, "The order has no appointment")
        raise Refusal(400, "The appointment is already cancelled")
    if visit.event_status == "completed":
        raise Refusal(400, "The appointment is already completed")
    return visit


def _rescheduling(kind: str) -> Callable[[ApiRequest], HttpResponse]:
    def reschedule(api_request: ApiRequest) -> HttpResponse:
        body = read_body(api_request.request, RESCHEDULE)
        order = _find_order(api_request, kind)
        now = clock.now()
        with order_editing.edit_order(order.id) as state:
            visit = _standing(state, kind)
            if not visit.can_reschedule:
                raise Refusal(400, "The appointment cannot be rescheduled")
            if state.low_level_status != "appointment_scheduled":
                low = state.low_level_status
                raise Refusal(400, f"No appointment can be rescheduled for an order in {low}")
            key = _read_key(body["booking_key"], order, kind, now)
            if key.provider != visit.provider:
                raise Refusal(400, "The booking key is for another provider")
            slot = _claim(key, now, visit.id)
            bookings.relocate(visit, _visit(state, key))
            if body["appointment_notes"] is not None:
                visit.appointment_notes = body["appointment_notes"]
            bookings.reschedule(state, visit, slot, "team")
        return _answer(visit.id)

    reschedule.__name__ = f"reschedule_{kind}"
    return reschedule


def _cancelling(kind: str) -> Callable[[ApiRequest], HttpResponse]:
    def cancel(api_request: ApiRequest) -> HttpResponse:
        body = read_body(api_request.request, CANCEL[kind])
        id_key, note_key = (field.name for field in CANCEL[kind])
        order = _find_order(api_request, kind)
        reason = next((each for each in REASONS[kind] if each["id"] == body[id_key]), None)
        if reason is None:
            given = Invalid("value_error", "Cancellation reason not found")
            raise malformed(["body", id_key], given, str(body[id_key]))
        with order_editing.edit_order(order.id) as state:
            visit = _standing(state, kind)
            if visit.provider == ONE_STATE_LAB:
                raise Refusal(400, "The appointment can be cancelled by the patient only")
            note = body[note_key]
            bookings.cancel(state, reason["name"], **({"note": note} if note else {}))
        return _answer(visit.id)

    cancel.__name__ = f"cancel_{kind}"
    return cancel


def _calls(kind: str, part: str, book: Callable[[ApiRequest], HttpResponse]) -> tuple[Call, ...]:
    base = f"/v3/order/{{order_id}}/{part}/appointment"
    what = "visit at home" if kind == PHLEBOTOMY else "visit at a service center"
    return (
        Call("POST", f"{base}/book", book, f"Book a {what}", takes=schema(BOOKING)),
        Call(
            "PATCH",
            f"{base}/reschedule",
            _rescheduling(kind),
            f"Move a {what}",
            takes=schema(RESCHEDULE),
        ),
        Call(
            "PATCH",
            f"{base}/cancel",
            _cancelling(kind),
            f"Cancel a {what}",
            takes=schema(CANCEL[kind]),
        ),
    )


CALLS = (
    *_calls(PHLEBOTOMY, "phlebotomy", book_visit),
    *_calls(PSC, "psc", book_center),
    Call(
        "POST",
        "/v3/order/{order_id}/phlebotomy/appointment/request",
        request_visit,
        "Request a visit at home",
        takes=schema(REQUEST),
    ),
)
