"""Cases of commands about visits. Each case has its own order and patient."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from backoffice.core.service_client import service
from backoffice.service.appointments import VisitAddress
from orders.booking.sites import order_address
from orders.commands import (
    BookCenter,
    BookHomeAppointment,
    CancelAppointment,
    RequestAppointment,
    RescheduleAppointment,
)
from orders.models import Appointment, Order
from orders.rules.appointment_rules import HOME
from orders.rules.slots import AppointmentPlace, OfferedTime, fetch_times
from orders.sync.appointments import APPOINTMENT_LOOKUPS
from orders.sync.orders import store_orders
from tests.outbox.draw_orders import order_awaiting_draw
from tests.outbox.records import CommandCase, SandboxRecords

LAB: Final = "lab-north"
_ZIPS = itertools.cycle(("85004", "85281", "98101"))
_USED_TIMES: set[tuple[datetime, str]] = set()
VISIT_LOOKUPS: Final = {subject.kind: subject for subject in APPOINTMENT_LOOKUPS}


def create_order(
    records: SandboxRecords, method: str = "at_home_phlebotomy", zip_code: str = ""
) -> Order:
    return order_awaiting_draw(records, method, zip_code or next(_ZIPS))  # type: ignore[arg-type]


def _address(order: Order) -> VisitAddress:
    return VisitAddress(**{name: text for name, text in order_address(order).items() if text})


def choose_time(place: AppointmentPlace) -> OfferedTime:
    """Return an offered time that no other case uses."""
    offered = fetch_times(service(), place, None)
    assert offered is not None, "nothing is offered"
    times = [
        OfferedTime(
            start=slot.start,
            zone=offered.zone_of(day) or "",
            site=day.location.code if day.location else "",
            expires_at=slot.expires_at,
            key=slot.booking_key,
        )
        for day in offered.slots
        for slot in day.slots
        if slot.booking_key
    ]
    place_name = place.address.zip_code if place.address else place.lab
    free = [time for time in times if (time.start, time.site or place_name) not in _USED_TIMES]
    chosen = max(free, key=lambda time: time.start)
    _USED_TIMES.add((chosen.start, chosen.site or place_name))
    return chosen


def _count_visits(
    records: SandboxRecords, command: BookHomeAppointment | BookCenter | RequestAppointment, _: UUID
) -> int:
    """Count the visits created for the order, current or not."""
    return records.count(
        "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o ON o.number = v.order_id"
        " WHERE o.id = %s",
        command.order_id,
    )


def _create_booking(records: SandboxRecords) -> BookHomeAppointment:
    order = create_order(records)
    address = _address(order)
    return BookHomeAppointment(
        order_id=order.pk,
        user_id=order.user_id,
        address=address,
        time=choose_time(AppointmentPlace(address=address)),
    )


def _create_center_booking(records: SandboxRecords) -> BookCenter:
    order = create_order(records, "walk_in_test", "85004")
    sites = records.sandbox.query(
        "SELECT s.site_code FROM sandbox_pscsite s JOIN sandbox_lab l ON l.id = s.lab_id"
        " WHERE l.slug = %s AND s.state = 'AZ' AND s.is_active ORDER BY 1 LIMIT 2",
        [LAB],
    )
    time = choose_time(AppointmentPlace(lab=LAB, sites=tuple(site for (site,) in sites)))
    return BookCenter(order_id=order.pk, user_id=order.user_id, lab=LAB, site="Made up", time=time)


def _create_request(records: SandboxRecords) -> RequestAppointment:
    order = create_order(records, zip_code="54650")
    provider = service().appointments.area_info("54650").data.phlebotomy.providers[0].name
    return RequestAppointment(
        order_id=order.pk, user_id=order.user_id, provider=provider, address=_address(order)
    )


def create_booked_visit(records: SandboxRecords) -> tuple[Order, Appointment]:
    """Return an order with a booked home visit."""
    order = create_order(records)
    time = choose_time(AppointmentPlace(address=_address(order)))
    service().appointments.book_phlebotomy(order.pk, time.key)
    store_orders([service().orders.get(order.pk)])
    subject = VISIT_LOOKUPS["appointment-phlebotomy"]
    subject.store({str(order.pk): subject.fetch(service(), str(order.pk))})
    return order, Appointment.objects.get(order_id=order.pk, superseded_at=None)


def cancel_booked_visit(order: Order, visit: Appointment) -> None:
    """Cancel the visit at the service and free its time for other cases."""
    calls = service().appointments
    calls.cancel_phlebotomy(order.pk, calls.phlebotomy_cancellation_reasons().records[0].data.id)
    _USED_TIMES.difference_update([key for key in _USED_TIMES if key[0] == visit.start_at])


def _seen_visit(order: Order, visit: Appointment) -> dict[str, Any]:
    return {
        "order_id": order.pk,
        "user_id": order.user_id,
        "visit_type": HOME,
        "appointment_id": visit.pk,
        "seen": visit.start_at,
    }


def create_move(records: SandboxRecords) -> RescheduleAppointment:
    order, visit = create_booked_visit(records)
    place = AppointmentPlace(address=_address(order))
    return RescheduleAppointment(**_seen_visit(order, visit), time=choose_time(place), where=place)


def _count_moves(records: SandboxRecords, command: RescheduleAppointment, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o ON o.number = v.order_id"
        " WHERE o.id = %s AND v.start_at = %s AND v.is_current",
        command.order_id,
        command.time.start,
    )


def _create_cancellation(records: SandboxRecords) -> CancelAppointment:
    order, visit = create_booked_visit(records)
    reasons = service().appointments.phlebotomy_cancellation_reasons()
    return CancelAppointment(**_seen_visit(order, visit), reason_id=reasons.records[0].data.id)


def _count_cancellations(records: SandboxRecords, command: CancelAppointment, _: UUID) -> int:
    return records.count(
        "SELECT count(*) FROM sandbox_appointmentevent WHERE appointment_id = %s"
        " AND status = 'cancelled'",
        command.appointment_id,
    )


CASES = (
    CommandCase(
        BookHomeAppointment, _create_booking, _count_visits, "/phlebotomy/appointment/book$"
    ),
    CommandCase(BookCenter, _create_center_booking, _count_visits, "/psc/appointment/book$"),
    CommandCase(RequestAppointment, _create_request, _count_visits, "/appointment/request$"),
    CommandCase(RescheduleAppointment, create_move, _count_moves, "/appointment/reschedule$"),
    CommandCase(
        CancelAppointment, _create_cancellation, _count_cancellations, "/appointment/cancel$"
    ),
)
