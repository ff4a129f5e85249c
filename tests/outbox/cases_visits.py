"""Cases of what is asked about visits: each has an order, and a patient, of its own."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from backoffice.core.service_client import service
from backoffice.service.appointments import VisitAddress
from orders.commands import BookCenter, BookVisit, CancelVisit, MoveVisit, RequestVisit
from orders.models import Appointment, Order
from orders.scheduling.rules import HOME
from orders.scheduling.sites import order_address
from orders.scheduling.slots import OfferedTime, VisitPlace, fetch_times
from orders.sync.appointments import APPOINTMENT_LOOKUPS
from orders.sync.orders import store_orders
from tests.outbox.draws import waiting
from tests.outbox.scene import Case, Scene

LAB: Final = "lab-north"
_ZIPS = itertools.cycle(("85004", "85281", "98101"))
_TAKEN: set[tuple[datetime, str]] = set()
READ: Final = {subject.kind: subject for subject in APPOINTMENT_LOOKUPS}


def _order(scene: Scene, method: str = "at_home_phlebotomy", zip_code: str = "") -> Order:
    return waiting(scene, method, zip_code or next(_ZIPS))  # type: ignore[arg-type]


def _address(order: Order) -> VisitAddress:
    return VisitAddress(**{name: text for name, text in order_address(order).items() if text})


def _time(place: VisitPlace) -> OfferedTime:
    """A time that is offered, and that no other case takes."""
    found = fetch_times(service(), place, None)
    assert found is not None, "nothing is offered"
    times = [
        OfferedTime(
            start=slot.start,
            zone=found.zone_of(one) or "",
            site=one.location.code if one.location else "",
            expires_at=slot.expires_at,
            key=slot.booking_key,
        )
        for one in found.slots
        for slot in one.slots
        if slot.booking_key
    ]
    where = place.address.zip_code if place.address else place.lab
    free = [time for time in times if (time.start, time.site or where) not in _TAKEN]
    chosen = max(free, key=lambda time: time.start)
    _TAKEN.add((chosen.start, chosen.site or where))
    return chosen


def _made(scene: Scene, command: BookVisit | BookCenter | RequestVisit, _: UUID) -> int:
    """How often a visit of the order was made, whether it stands or not."""
    return scene.count(
        "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o ON o.number = v.order_id"
        " WHERE o.id = %s",
        command.order_id,
    )


def _book(scene: Scene) -> BookVisit:
    order = _order(scene)
    address = _address(order)
    return BookVisit(
        order_id=order.pk,
        user_id=order.user_id,
        address=address,
        time=_time(VisitPlace(address=address)),
    )


def _book_center(scene: Scene) -> BookCenter:
    order = _order(scene, "walk_in_test", "85004")
    sites = scene.sandbox.query(
        "SELECT s.site_code FROM sandbox_pscsite s JOIN sandbox_lab l ON l.id = s.lab_id"
        " WHERE l.slug = %s AND s.state = 'AZ' AND s.is_active ORDER BY 1 LIMIT 2",
        [LAB],
    )
    time = _time(VisitPlace(lab=LAB, sites=tuple(site for (site,) in sites)))
    return BookCenter(order_id=order.pk, user_id=order.user_id, lab=LAB, site="Made up", time=time)


def _request(scene: Scene) -> RequestVisit:
    order = _order(scene, zip_code="54650")
    provider = service().appointments.area_info("54650").data.phlebotomy.providers[0].name
    return RequestVisit(
        order_id=order.pk, user_id=order.user_id, provider=provider, address=_address(order)
    )


def standing(scene: Scene) -> tuple[Order, Appointment]:
    """A booked visit at home."""
    order = _order(scene)
    time = _time(VisitPlace(address=_address(order)))
    service().appointments.book_phlebotomy(order.pk, time.key)
    store_orders([service().orders.get(order.pk)])
    subject = READ["appointment-phlebotomy"]
    subject.store({str(order.pk): subject.fetch(service(), str(order.pk))})
    return order, Appointment.objects.get(order_id=order.pk, superseded_at=None)


def freed(order: Order, visit: Appointment) -> None:
    """Its visit is cancelled at the service; that time and the one it was made for are free."""
    calls = service().appointments
    calls.cancel_phlebotomy(order.pk, calls.phlebotomy_cancellation_reasons().records[0].data.id)
    _TAKEN.difference_update([key for key in _TAKEN if key[0] == visit.start_at])


def _seen(order: Order, visit: Appointment) -> dict[str, Any]:
    return {
        "order_id": order.pk,
        "user_id": order.user_id,
        "visit_type": HOME,
        "appointment_id": visit.pk,
        "seen": visit.start_at,
    }


def move(scene: Scene) -> MoveVisit:
    order, visit = standing(scene)
    where = VisitPlace(address=_address(order))
    return MoveVisit(**_seen(order, visit), time=_time(where), where=where)


def _moved(scene: Scene, command: MoveVisit, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_appointment v JOIN sandbox_order o ON o.number = v.order_id"
        " WHERE o.id = %s AND v.start_at = %s AND v.is_current",
        command.order_id,
        command.time.start,
    )


def _cancel(scene: Scene) -> CancelVisit:
    order, visit = standing(scene)
    reasons = service().appointments.phlebotomy_cancellation_reasons()
    return CancelVisit(**_seen(order, visit), reason_id=reasons.records[0].data.id)


def _cancelled(scene: Scene, command: CancelVisit, _: UUID) -> int:
    return scene.count(
        "SELECT count(*) FROM sandbox_appointmentevent WHERE appointment_id = %s"
        " AND status = 'cancelled'",
        command.appointment_id,
    )


CASES = (
    Case(BookVisit, _book, _made, "/phlebotomy/appointment/book$"),
    Case(BookCenter, _book_center, _made, "/psc/appointment/book$"),
    Case(RequestVisit, _request, _made, "/appointment/request$"),
    Case(MoveVisit, move, _moved, "/appointment/reschedule$"),
    Case(CancelVisit, _cancel, _cancelled, "/appointment/cancel$"),
)
