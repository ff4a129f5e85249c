"""Sync of appointments (appointments.md 5, 6).

They are read per order, because the service has no list of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from django.db.models import Q

from backoffice.mirror.applying import apply_batch
from backoffice.mirror.tables import ChildTable, MirrorRecord, MirrorTable, RowValues
from backoffice.service import Record, areas
from backoffice.service import appointments as service_appointments
from backoffice.sync.lookups import LookupType
from orders.appointment_zones import visit_zone
from orders.models import Appointment, AppointmentEvent
from orders.models.appointment import ENDED_STATUSES, draw_day
from orders.turnaround.measurement import update_booked_orders

NEAR_DRAW = timedelta(hours=24)
LONG_PAST = timedelta(days=7)


def _appointment(record: MirrorRecord) -> RowValues:
    draw: service_appointments.AppointmentPayload = record.data
    address = draw.address or service_appointments.AppointmentAddress()
    place = draw.location or areas.LngLat()
    return {
        "user_id": draw.user_id,
        "order_id": draw.order_id,
        "order_transaction_id": draw.order_transaction_id,
        "type": draw.type,
        "provider": draw.provider,
        "provider_id": draw.provider_id or "",
        "external_id": draw.external_id,
        "status": draw.status,
        "event_status": draw.event_status,
        "start_at": draw.start_at,
        "end_at": draw.end_at,
        "draw_day": draw_day(draw.start_at, visit_zone(draw.iana_timezone, address.state)),
        "iana_timezone": draw.iana_timezone,
        "can_reschedule": draw.can_reschedule,
        "appointment_notes": draw.appointment_notes,
        "first_line": address.first_line,
        "second_line": address.second_line or "",
        "city": address.city,
        "state": address.state,
        "zip_code": address.zip_code or "",
        "lng": place.lng,
        "lat": place.lat,
        "superseded_at": None,
    }


def _events(record: MirrorRecord) -> Iterator[RowValues]:
    for position, event in enumerate(record.data.events):
        yield {
            "appointment_id": record.key[0],
            "position": position,
            "created_at": event.created_at,
            "status": event.status,
        }


APPOINTMENTS = MirrorTable(
    model=Appointment,
    key=("id",),
    promote=_appointment,
    children=(
        ChildTable(
            model=AppointmentEvent,
            parent="appointment_id",
            key=("appointment_id", "position"),
            rows=_events,
        ),
    ),
    vocabularies={
        "type": "appointment.type",
        "status": "appointment.status",
        "event_status": "appointment.event_status",
    },
    revision=2,
)


def _store(
    answers: Mapping[str, Record[service_appointments.AppointmentPayload]],
) -> dict[str, timedelta | None]:
    """Store the active appointment of each order, and mark earlier ones as superseded."""
    records = [MirrorRecord.from_service(r, r.data.id) for r in answers.values()]
    apply_batch(APPOINTMENTS, records)
    active = {mirror_record.data.order_id: mirror_record for mirror_record in records}
    for draw in Appointment.objects.filter(
        Q(superseded_at__isnull=True)
        | Q(pk__in=[mirror_record.key[0] for mirror_record in records]),
        order_id__in=list(active),
    ).only("pk", "order_id", "superseded_at"):
        mirror_record = active[draw.order_id]
        superseded_at = None if draw.pk == mirror_record.key[0] else mirror_record.as_of
        if draw.superseded_at != superseded_at:
            Appointment.objects.filter(pk=draw.pk).update(superseded_at=superseded_at)
    update_booked_orders(
        {order_id: mirror_record.data.start_at for order_id, mirror_record in active.items()}
    )
    return {key: _next_lookup(record.data) for key, record in answers.items()}


def _next_lookup(draw: service_appointments.AppointmentPayload) -> timedelta | None:
    """Return when to read the appointment again; None if it has ended.

    Appointments change without an event of their order, so they are read often around the draw.
    """
    if draw.event_status in ENDED_STATUSES or draw.status in ENDED_STATUSES:
        return None
    ahead = None if draw.start_at is None else draw.start_at - datetime.now(UTC)
    if ahead is None or ahead > NEAR_DRAW or -NEAR_DRAW > ahead > -LONG_PAST:
        return timedelta(minutes=10)
    return timedelta(minutes=1) if ahead > -NEAR_DRAW else timedelta(days=1)


def _mark_superseded(other: str, keys: Sequence[str], asked_at: datetime) -> None:
    """Mark the appointments of orders that have no active one of this type.

    Appointments of the `other` type are not affected.
    """
    Appointment.objects.filter(
        ~Q(type=other),
        order_id__in=[UUID(key) for key in keys],
        superseded_at__isnull=True,
        as_of__lt=asked_at,
    ).update(superseded_at=asked_at)


APPOINTMENT_LOOKUPS = (
    LookupType(
        kind="appointment-phlebotomy",
        fetch=lambda service, key: service.appointments.phlebotomy(key),
        store=_store,
        on_missing=partial(_mark_superseded, "patient_service_center"),
    ),
    LookupType(
        kind="appointment-psc",
        fetch=lambda service, key: service.appointments.psc(key),
        store=_store,
        on_missing=partial(_mark_superseded, "phlebotomy"),
    ),
)
