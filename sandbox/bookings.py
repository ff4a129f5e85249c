"""Effects of booking, rescheduling and cancelling an appointment, on it and on its order
(appointments.md 6)."""

from datetime import datetime, timedelta
from typing import Any

import orjson

from sandbox import appointment_lifecycle, order_editing, order_lifecycle
from sandbox.keyed_random import KeyedRandom
from sandbox.models import PscSite, ServiceArea
from sandbox.slots import PHLEBOTOMY, PSC, Slot
from sandbox.states import AppointmentEventState, AppointmentState, OrderState

BOOKABLE = ("requisition_created", "requisition_bypassed", "appointment_cancelled")
WITH_APPOINTMENT = ("appointment_pending", "appointment_scheduled")


def home_appointment(
    order: OrderState, rng: KeyedRandom, area: ServiceArea, provider: str, address: dict[str, Any]
) -> AppointmentState:
    """Return an appointment at a USAddress, without a time. Access notes of the order are used if
    the address has none."""
    patient_address = orjson.loads("{" + order.fixed_part + "}")["patient_address"] or {}
    return AppointmentState(
        rng.uuid(),
        order.user_id,
        PHLEBOTOMY,
        provider,
        rng.digits(7),
        address["first_line"],
        address["second_line"] or address["unit"],
        address["city"],
        address["state"],
        address["zip_code"],
        address["access_notes"] or patient_address.get("access_notes"),
        round(area.lng + rng.uniform(-0.02, 0.02), 6),
        round(area.lat + rng.uniform(-0.02, 0.02), 6),
        area.iana_timezone,
    )


def site_appointment(order: OrderState, rng: KeyedRandom, site: PscSite) -> AppointmentState:
    """Return an appointment at a service center, without a time."""
    return AppointmentState(
        rng.uuid(),
        order.user_id,
        PSC,
        site.lab.slug,
        appointment_lifecycle.provider_reference(site.site_code),
        site.first_line,
        site.second_line,
        site.city,
        site.state,
        site.zip_code,
        None,
        site.lng,
        site.lat,
        site.iana_timezone,
        site_id=site.pk,
    )


LOCATION_FIELDS = (
    "site_id", "first_line", "second_line", "city", "state", "zip_code",
    "access_notes", "lng", "lat", "iana_timezone",
)  # fmt: skip


def relocate(visit: AppointmentState, there: AppointmentState) -> None:
    """Set the location of the appointment to that of another one."""
    for name in LOCATION_FIELDS:
        setattr(visit, name, getattr(there, name))


def assign_slot(visit: AppointmentState, slot: Slot) -> None:
    """Set the time of the appointment to that of the slot."""
    visit.start_at, visit.end_at = slot.start, slot.end


def request_confirmation(order: OrderState, visit: AppointmentState) -> None:
    """Let the order wait until the provider confirms the appointment."""
    at = order_editing.next_moment(order)
    _add_request(order, visit, at)
    order_editing.end_step(order, at)


def _add_request(order: OrderState, visit: AppointmentState, at: datetime) -> None:
    visit.can_reschedule = False
    visit.events.append(AppointmentEventState(at, "pending", None))
    order.appointment = visit
    order_lifecycle.add_event(order, "appointment_pending", at)
    order_lifecycle.touch_details(order, at)


def reserve(order: OrderState, visit: AppointmentState) -> None:
    """Reserve a slot that the lab will confirm by itself; the order does not show it yet."""
    at = order_editing.next_moment(order)
    appointment_lifecycle.set_status(visit, "reserved", at)
    order.appointment = visit
    order_lifecycle.touch_details(order, at)
    order_editing.end_step(order, at)


def request_with_timeout(order: OrderState, visit: AppointmentState, patience: timedelta) -> None:
    """As `ask`; the provider answers before patience ends."""
    request_confirmation(order, visit)
    wait = patience * order_editing.rng_for(order).uniform(0.1, 0.6) / order_editing.current_pace()
    assert order.next_at is not None
    order.next_at = min(order.next_at, order.updated_at + wait)


def book(order: OrderState, visit: AppointmentState) -> None:
    """Book and confirm the appointment at once, with one order event for each."""
    at = order_editing.next_moment(order)
    rng = order_editing.rng_for(order)
    _add_request(order, visit, at)
    _confirm(order, rng, at + order_lifecycle.INSTANT)
    order_editing.end_step(order, at + order_lifecycle.INSTANT)


def confirm(order: OrderState) -> None:
    """Confirm the appointment that the order waits for, or that the lab has reserved."""
    at = order_editing.next_moment(order)
    if order.low_level_status in BOOKABLE:
        order_lifecycle.add_event(order, "appointment_pending", at)
    _confirm(order, order_editing.rng_for(order), at + order_lifecycle.INSTANT)
    order_editing.end_step(order, at + order_lifecycle.INSTANT)


def _confirm(order: OrderState, rng: KeyedRandom, at: datetime) -> None:
    appointment_lifecycle.confirm(order, rng, at, 1)
    order_lifecycle.add_event(order, "appointment_scheduled", at)
    order_lifecycle.touch_details(order, at)


def reschedule(order: OrderState, visit: AppointmentState, slot: Slot, origin: str) -> None:
    """Move the appointment to another slot; the old slot is free again."""
    at = order_editing.next_moment(order)
    assign_slot(visit, slot)
    appointment_lifecycle.set_status(
        visit, "scheduled", at, {"origin": origin, "is_reschedule": True}
    )
    order_lifecycle.add_event(order, "appointment_scheduled", at)
    order_lifecycle.touch_details(order, at)
    order_editing.end_step(order, at)


def cancel(order: OrderState, reason: str, **more: Any) -> None:
    """Cancel the appointment. The order changes too if it has a requisition."""
    at = order_editing.next_moment(order)
    appointment_lifecycle.end_current(order, at, reason, **more)
    if order.low_level_status in WITH_APPOINTMENT:
        order_lifecycle.add_event(order, "appointment_cancelled", at)
    order_lifecycle.touch_details(order, at)
    order_editing.end_step(order, at)
