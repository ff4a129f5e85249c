"""Appointments at home and at patient service centers, and the calls for areas and centers.

Interface: appointments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from uuid import UUID

from msgspec import field

from backoffice.service.areas import AreaInfo, LngLat, PscInfo
from backoffice.service.exchange import Calls, as_json, idempotency_headers
from backoffice.service.payload import (
    Instant,
    Payload,
    Reader,
    Record,
    RecordPage,
    RequestBody,
    either,
    parse_day,
)
from backoffice.service.wire import Query

_PHLEBOTOMY = "/v3/order/{order_id}/phlebotomy/appointment"
_PSC = "/v3/order/{order_id}/psc/appointment"


class AppointmentAddress(Payload):
    """The address of an appointment.

    The service sends the postal code as ``zip_code`` or ``zip``, and the second line as
    ``second_line`` or, in the older spelling, as ``unit``.
    """

    first_line: str = ""
    second_line_sent: str | None = field(default=None, name="second_line")
    unit: str | None = None
    city: str = ""
    state: str = ""
    zip_code_sent: str | None = field(default=None, name="zip_code")
    zip_sent: str | None = field(default=None, name="zip")
    country: str | None = None
    access_notes: str | None = None

    @property
    def second_line(self) -> str | None:
        return either(self.second_line_sent, self.unit)

    @property
    def zip_code(self) -> str | None:
        return either(self.zip_code_sent, self.zip_sent)

    @property
    def zip(self) -> str | None:
        return self.zip_code


class AppointmentEventPayload(Payload):
    """One step in the history of an appointment.

    It has no id: ``created_at`` and ``status`` together identify it. ``data`` is free form.
    """

    created_at: Instant
    status: str
    data: Any = None


class AppointmentPayload(Payload):
    """The active appointment of an order.

    Times are UTC; show them in ``iana_timezone``. Pages depend on ``event_status``; ``status`` is
    the provider's own state.
    """

    id: UUID
    user_id: UUID
    order_id: UUID
    order_transaction_id: UUID | None = None
    address: AppointmentAddress | None = None
    location: LngLat | None = None
    start_at: Instant | None = None
    end_at: Instant | None = None
    iana_timezone: str | None = None
    type: str = ""
    provider: str = ""
    status: str = ""
    provider_id: str | None = None
    external_id: str | None = None
    can_reschedule: bool = False
    appointment_notes: str | None = None
    event_status: str = ""
    event_data: Any = None
    events: list[AppointmentEventPayload] = field(default_factory=list)


class SlotLocation(Payload):
    """The patient service center of a day's slots; ``code`` is its site code."""

    location: LngLat | None = None
    distance: float | None = None
    address: AppointmentAddress | None = None
    code: str = ""
    name: str = ""
    iana_timezone: str | None = None


class Slot(Payload):
    """A time that can be booked.

    ``booking_key`` is opaque. It is None when the slot cannot be booked through the service, and it
    is not valid after ``expires_at``. The unit of ``price`` is not documented: samples look like
    cents, and are 0 at service centers.
    """

    start: Instant
    end: Instant
    booking_key: str | None = None
    expires_at: Instant | None = None
    price: float | None = None
    is_priority: bool = False
    places: int | None = field(default=None, name="num_appointments_available")


class DaySlots(Payload):
    date_sent: str | None = field(default=None, name="date")
    slots: list[Slot] = field(default_factory=list)
    location: SlotLocation | None = None

    @property
    def date(self) -> date | None:
        return parse_day(self.date_sent)


class Availability(Payload):
    """Slots by day.

    At-home slots have one time zone for all days. Slots at centers have a time zone in the location
    of each day. :meth:`zone_of` reads both.
    """

    slots: list[DaySlots]
    timezone: str | None = None

    def zone_of(self, day: DaySlots) -> str | None:
        """Return the IANA name of the zone for a day's slots; None when it was not sent."""
        return (day.location.iana_timezone if day.location else None) or self.timezone


class CancellationReason(Payload):
    id: UUID
    name: str = ""
    is_refundable: bool = False


class VisitAddress(RequestBody):
    """The address that the phlebotomist visits: a street with its number.

    ``zip_code`` has five digits, or five and four. ``access_notes`` has at most 1000 characters.
    """

    first_line: str
    city: str
    state: str
    zip_code: str
    second_line: str | None = None
    access_notes: str | None = None


APPOINTMENT = Reader(AppointmentPayload)
_AVAILABILITY = Reader(Availability)
_REASON = Reader(CancellationReason)
_AREA = Reader(AreaInfo)
_SITES = Reader(PscInfo)


class AppointmentCalls(Calls):
    """Calls of appointments.md 1.

    A radius is a text with a number of miles: 10, 20, 25, 50, or 100. ``notes`` are about the
    appointment, at most 1000 characters. Only a booking at a patient service center accepts an
    idempotency key. After any other write that ends as Uncertain, read the appointment.
    """

    def phlebotomy(self, order_id: UUID | str) -> Record[AppointmentPayload]:
        """Return the active at-home appointment; raises Missing when there is none."""
        return self._call.record(_PHLEBOTOMY, APPOINTMENT, order_id=order_id)

    def psc(self, order_id: UUID | str) -> Record[AppointmentPayload]:
        """Return the active appointment at a patient service center.

        Raises Missing when there is none.
        """
        return self._call.record(_PSC, APPOINTMENT, order_id=order_id)

    def phlebotomy_availability(
        self, address: VisitAddress, start_date: date | None = None
    ) -> Record[Availability]:
        """Return the slots at a patient's home for 14 days, from today or ``start_date``."""
        path = "/v3/order/phlebotomy/appointment/availability"
        query = {"start_date": start_date}
        return self._call.look_up(path, _AVAILABILITY, query=query, body=as_json(address))

    def psc_availability(
        self,
        lab: str,
        *,
        zip_code: str | None = None,
        radius: str | None = None,
        site_codes: Sequence[str] = (),
        start_date: date | None = None,
        allow_stale: bool = False,
    ) -> Record[Availability]:
        """Return the slots at centers of a lab (slug).

        Name at most three centers in ``site_codes``, or give a five-digit zip code to search
        around. Raises Missing when there are no slots, and NotEnabled when the team lacks the
        feature.
        """
        query: Query = {
            "lab": lab,
            "start_date": start_date,
            "site_codes": site_codes,
            "zip_code": zip_code,
            "radius": radius,
            "allow_stale": allow_stale,
        }
        path = "/v3/order/psc/appointment/availability"
        return self._call.look_up(path, _AVAILABILITY, query=query)

    def request_phlebotomy(
        self, order_id: UUID | str, address: VisitAddress, provider: str, notes: str | None = None
    ) -> Record[AppointmentPayload]:
        """Request a visit from a provider that takes requests.

        The appointment has no time until the provider agrees.
        """
        body = {"address": address, "provider": provider, **_notes_field(notes)}
        return self._send("POST", _PHLEBOTOMY, "request", order_id, body)

    def book_phlebotomy(
        self, order_id: UUID | str, booking_key: str, notes: str | None = None
    ) -> Record[AppointmentPayload]:
        body = {"booking_key": booking_key, **_notes_field(notes)}
        return self._send("POST", _PHLEBOTOMY, "book", order_id, body)

    def book_psc(
        self,
        order_id: UUID | str,
        booking_key: str,
        notes: str | None = None,
        *,
        idempotency_key: str | None = None,
        no_cache: bool = False,
        async_confirmation: bool = False,
        sync_timeout_ms: int | None = None,
        async_timeout_ms: int | None = None,
    ) -> Record[AppointmentPayload]:
        """Book a slot at a patient service center.

        With ``async_confirmation`` the appointment may be pending, which means not yet confirmed.
        Without it, the outcome is Uncertain when the lab is slow. ``sync_timeout_ms`` is 1000 to
        10,000 and limits the answer; ``async_timeout_ms`` is 60,000 to 172,800,000 and limits the
        confirmation after it. The idempotency key is a beta feature of the service and lasts 14
        days. The answer that the service stores for a key does not change when the booking changes.
        """
        limits = {
            "sync_confirmation_timeout_millisecond": sync_timeout_ms,
            "async_confirmation_timeout_millisecond": async_timeout_ms,
        }
        body: dict[str, object] = {"booking_key": booking_key, **_notes_field(notes)}
        body |= {name: limit for name, limit in limits.items() if limit is not None}
        if async_confirmation:
            body["async_confirmation"] = True
        headers = idempotency_headers(idempotency_key, no_cache)
        return self._send("POST", _PSC, "book", order_id, body, headers)

    def reschedule_phlebotomy(
        self, order_id: UUID | str, booking_key: str, notes: str | None = None
    ) -> Record[AppointmentPayload]:
        body = {"booking_key": booking_key, **_notes_field(notes)}
        return self._send("PATCH", _PHLEBOTOMY, "reschedule", order_id, body)

    def reschedule_psc(
        self, order_id: UUID | str, booking_key: str, notes: str | None = None
    ) -> Record[AppointmentPayload]:
        body = {"booking_key": booking_key, **_notes_field(notes)}
        return self._send("PATCH", _PSC, "reschedule", order_id, body)

    def cancel_phlebotomy(
        self, order_id: UUID | str, reason_id: UUID | str, note: str | None = None
    ) -> Record[AppointmentPayload]:
        body = {"cancellation_reason_id": reason_id} | ({} if note is None else {"notes": note})
        return self._send("PATCH", _PHLEBOTOMY, "cancel", order_id, body)

    def cancel_psc(
        self, order_id: UUID | str, reason_id: UUID | str, note: str | None = None
    ) -> Record[AppointmentPayload]:
        """Cancel the appointment; this body alone is in camelCase (differences.md 60)."""
        body = {"cancellationReasonId": reason_id} | ({} if note is None else {"note": note})
        return self._send("PATCH", _PSC, "cancel", order_id, body)

    def phlebotomy_cancellation_reasons(self) -> RecordPage[CancellationReason]:
        path = "/v3/order/phlebotomy/appointment/cancellation-reasons"
        return self._call.page(path, _REASON, quick=True)

    def psc_cancellation_reasons(self) -> RecordPage[CancellationReason]:
        path = "/v3/order/psc/appointment/cancellation-reasons"
        return self._call.page(path, _REASON, quick=True)

    def _send(
        self,
        method: str,
        route: str,
        verb: str,
        order_id: UUID | str,
        body: Mapping[str, object],
        headers: dict[str, str] | None = None,
    ) -> Record[AppointmentPayload]:
        return self._call.send(
            method,
            f"{route}/{verb}",
            APPOINTMENT,
            as_json(body),
            headers=headers,
            order_id=order_id,
        )

    def area_info(
        self,
        zip_code: str,
        radius: str = "25",
        labs: Sequence[str] = (),
        lab_account_id: UUID | str | None = None,
    ) -> Record[AreaInfo]:
        """Return what labs and providers offer near a five-digit zip code."""
        query: Query = {
            "zip_code": zip_code,
            "radius": radius,
            "labs": labs,
            "lab_account_id": lab_account_id,
        }
        return self._call.record("/v3/order/area/info", _AREA, query=query)

    def psc_info(
        self,
        zip_code: str,
        lab_id: int,
        radius: str = "25",
        capabilities: Sequence[str] = (),
        lab_account_id: UUID | str | None = None,
    ) -> Record[PscInfo]:
        """Return the centers of a lab near a zip code."""
        query: Query = {
            "zip_code": zip_code,
            "lab_id": lab_id,
            "radius": radius,
            "capabilities": capabilities,
            "lab_account_id": lab_account_id,
        }
        return self._call.record("/v3/order/psc/info", _SITES, query=query)

    def order_psc_info(
        self, order_id: UUID | str, radius: str = "25", capabilities: Sequence[str] = ()
    ) -> Record[PscInfo]:
        """Return the centers that can draw the sample of this order."""
        query: Query = {"radius": radius, "capabilities": capabilities}
        return self._call.record(
            "/v3/order/{order_id}/psc/info", _SITES, query=query, order_id=order_id
        )


def _notes_field(notes: str | None) -> dict[str, str]:
    return {} if notes is None else {"appointment_notes": notes}
