"""Simulated appointments: how they are made, confirmed, moved and ended (appointments.md 5-7)."""

import zlib
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from sandbox.context import Context
from sandbox.keyed_random import KeyedRandom
from sandbox.places import AREAS, ONE_STATE_LAB
from sandbox.states import AppointmentEventState, AppointmentState, OrderState

AREA_OF_ZIP = {area[0]: place for place, area in enumerate(AREAS)}
CANCEL_REASONS = (
    "Patient cannot make it",
    "Address not reachable",
    "Weather",
    "Other",
)
# Providers whose appointments cannot be rescheduled by the API: they offer no slots.
UNMOVABLE = frozenset({"visit-nurse", ONE_STATE_LAB})
PROVIDER_STATUS = {
    "pending": "pending",
    "reserved": "reserved",
    "scheduled": "confirmed",
    "in_progress": "in_progress",
    "completed": "completed",
    "cancelled": "cancelled",
}


def set_status(
    visit: AppointmentState, event_status: str, at: datetime, data: dict[str, Any] | None = None
) -> None:
    """Add an appointment event and the state that goes with it."""
    if visit.events and at <= visit.events[-1].created_at:
        at = visit.events[-1].created_at + timedelta(milliseconds=1)
    visit.events.append(AppointmentEventState(at, event_status, data))
    visit.event_status = event_status
    visit.event_data = data
    visit.status = PROVIDER_STATUS[event_status]
    visit.can_reschedule = event_status == "scheduled" and visit.provider not in UNMOVABLE
    if event_status == "cancelled":
        visit.is_current = False
    visit.changed = True


def provider_reference(site_code: str) -> str:
    """Return a center's own reference of a visit; the API does not say that it means the site."""
    return f"loc/{zlib.crc32(site_code.encode()):08x}"


def can_book(context: Context, order: OrderState) -> bool:
    """Return whether the simulation can make an appointment for this order."""
    area = AREA_OF_ZIP.get(order.zip_code)
    if area is None:
        return False
    if order.method == "walk_in_test":
        return (context.tests[order.lab_test_id].lab_id, area) in context.sites
    return bool(AREAS[area][6])


def book(context: Context, order: OrderState, rng: KeyedRandom, at: datetime, pace: float) -> None:
    """Make the order's next appointment, pending; the former one, if any, is superseded."""
    end_current(order, at, "superseded")
    area = AREA_OF_ZIP[order.zip_code]
    zone = AREAS[area][5]
    if order.method == "walk_in_test":
        site = rng.choice(context.sites[context.tests[order.lab_test_id].lab_id, area])
        visit = AppointmentState(
            rng.uuid(),
            order.user_id,
            "patient_service_center",
            site.lab_slug,
            provider_reference(site.code),
            site.first_line,
            site.second_line,
            site.city,
            site.state,
            site.zip_code,
            None,
            site.lng,
            site.lat,
            site.zone,
            site_id=site.id,
        )
        set_slot(visit, rng, at, pace, zone)
    else:
        address = orjson.loads("{" + order.fixed_part + "}")["patient_address"]
        provider = rng.choice(sorted(AREAS[area][6]))
        visit = AppointmentState(
            rng.uuid(),
            order.user_id,
            "phlebotomy",
            provider,
            rng.digits(7),
            address["first_line"],
            address["second_line"],
            address["city"],
            address["state"],
            address["zip"],
            address["access_notes"],
            round(AREAS[area][3] + rng.uniform(-0.02, 0.02), 6),
            round(AREAS[area][4] + rng.uniform(-0.02, 0.02), 6),
            zone,
            appointment_notes="Made-up note: call on arrival" if rng.chance(0.2) else None,
        )
        if AREAS[area][6][provider] == ["appointment-ready"]:
            set_slot(visit, rng, at, pace, zone)
    visit.can_reschedule = False
    visit.events.append(AppointmentEventState(at, "pending", None))
    order.appointment = visit


def confirm(order: OrderState, rng: KeyedRandom, at: datetime, pace: float) -> None:
    """Confirm the appointment; one that was requested without a time gets its time now."""
    visit = order.appointment
    assert visit is not None
    if visit.start_at is None:
        set_slot(visit, rng, at, pace, visit.iana_timezone or "UTC")
    if visit.type == "patient_service_center" and visit.external_id is None:
        visit.external_id = f"A{rng.digits(7)}"
    set_status(visit, "scheduled", at, None)


def rebook(order: OrderState, rng: KeyedRandom, at: datetime, pace: float) -> None:
    """Move the appointment to another time."""
    visit = order.appointment
    assert visit is not None
    set_slot(visit, rng, at, pace, visit.iana_timezone or "UTC")
    origin = rng.choice(("patient", "provider", "service"))
    set_status(visit, "scheduled", at, {"origin": origin, "is_reschedule": True})


def cancel(order: OrderState, rng: KeyedRandom, at: datetime) -> None:
    """Cancel the current appointment; the order has none then."""
    end_current(order, at, rng.choice(CANCEL_REASONS))


def end_current(order: OrderState, at: datetime, reason: str, **more: Any) -> None:
    """End the current appointment, if there is one that has not ended."""
    visit = order.appointment
    if visit is None:
        return
    if visit.event_status not in ("cancelled", "completed"):
        set_status(visit, "cancelled", at, {"cancellation_reason": reason, **more})
    visit.is_current = False
    visit.changed = True
    order.past_appointments.append(visit)
    order.appointment = None


def set_slot(
    visit: AppointmentState, rng: KeyedRandom, at: datetime, pace: float, zone: str
) -> None:
    """Set a slot one to nine days ahead in the morning of its zone; a fast world books sooner.

    `pace` is the speed of the world; above 4, times are near and not on the 20-minute grid.
    """
    days = rng.integer(1, 9)
    minute = 20 * rng.integer(0, 17)
    if pace > 4:
        visit.start_at = at + timedelta(hours=24 * days) / pace
        visit.end_at = visit.start_at + max(timedelta(minutes=20) / pace, timedelta(seconds=1))
        return
    local = (at.astimezone(ZoneInfo(zone)) + timedelta(days=days)).replace(
        hour=7 + minute // 60, minute=minute % 60, second=0, microsecond=0
    )
    visit.start_at = local.astimezone(at.tzinfo)
    visit.end_at = visit.start_at + timedelta(minutes=20)
