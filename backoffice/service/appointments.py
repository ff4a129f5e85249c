"""Appointments at home and at patient service centers, areas and sites. Interface: appointments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import field

from backoffice.service.exchange import Chapter
from backoffice.service.payload import Instant, Payload, Reader, Record, either

BOOKABLE_PREFIX = "appointment_scheduling_via_"
"""Capability of a site that can be booked through the service; the rest of it is a brand."""


class LngLat(Payload):
    """Degrees."""

    lng: float | None = None
    lat: float | None = None


class AppointmentAddress(Payload):
    """Either spelling of the postal code, and of the second line (``unit`` is older)."""

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


class AppointmentEvent(Payload):
    """History; no id: identified by (``created_at``, ``status``). ``data`` is free form."""

    created_at: Instant
    status: str
    data: Any = None


class Appointment(Payload):
    """The active appointment of an order. Times are UTC, to be shown in ``iana_timezone``;
    ``event_status`` drives the page, ``status`` is the provider's own state."""

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
    events: list[AppointmentEvent] = field(default_factory=list)


class AreaProvider(Payload):
    """A phlebotomy provider; ``service_types`` is also sent as ``tier``."""

    name: str = ""
    service_types_sent: list[str] | None = field(default=None, name="service_types")
    tier: list[str] | str | None = None

    @property
    def service_types(self) -> list[str]:
        if self.service_types_sent is not None:
            return self.service_types_sent
        return [self.tier] if isinstance(self.tier, str) else self.tier or []


class AreaPhlebotomy(Payload):
    is_served: bool = False
    providers: list[AreaProvider] = field(default_factory=list)


class CentralLab(Payload):
    """A lab's walk-in offer near a zip code. Samples disagree on where things are, so the centres
    are kept as sent and read through the properties. Radius in miles."""

    patient_service_centers: Any = None
    supported_bill_types_sent: list[str] | None = field(default=None, name="supported_bill_types")
    lab_id: int | None = None
    within_radius_sent: int | None = field(default=None, name="within_radius")

    @property
    def _centers(self) -> dict[str, Any]:
        sent = self.patient_service_centers
        return sent if isinstance(sent, dict) else {}

    @property
    def supported_bill_types(self) -> list[str]:
        sent = self.supported_bill_types_sent
        if sent is None:
            sent = self._centers.get("supported_bill_types")
        return [str(one) for one in sent] if isinstance(sent, list) else []

    @property
    def within_radius(self) -> int | None:
        """How many centres are within the radius."""
        sent = self._centers.get("within_radius", self.within_radius_sent)
        return int(str(sent)) if str(sent).isdigit() else None

    @property
    def radius(self) -> str | None:
        sent = self._centers.get("radius")
        return None if sent is None else str(sent)

    @property
    def capabilities(self) -> list[str]:
        sent = self._centers.get("capabilities")
        return [str(one) for one in sent] if isinstance(sent, list) else []

    @property
    def bookable(self) -> bool:
        """Whether the service books here: a flag whose name ends in a brand (differences.md 69)."""
        return any(
            name.startswith("appointment_with_") and value is True
            for name, value in self._centers.items()
        )


class AreaInfo(Payload):
    zip_code: str
    phlebotomy: AreaPhlebotomy = field(default_factory=AreaPhlebotomy)
    central_labs: dict[str, CentralLab] = field(default_factory=dict)


class SiteMetadata(Payload):
    """Address and contact of a centre; ``hours`` None: ask the lab."""

    name: str = ""
    state: str = ""
    city: str = ""
    zip_code: str = ""
    first_line: str = ""
    second_line: str | None = None
    phone_number: str | None = None
    fax_number: str | None = None
    hours: Any = None
    website: str | None = None


class Site(Payload):
    """A patient service center. ``distance`` in miles, as number or text."""

    site_code: str
    metadata: SiteMetadata = field(default_factory=SiteMetadata)
    distance_sent: int | float | str | None = field(default=None, name="distance")
    supported_bill_types: list[str] = field(default_factory=list)
    location: LngLat | None = None
    capabilities: list[str] = field(default_factory=list)

    @property
    def distance(self) -> float | None:
        try:
            return None if self.distance_sent is None else float(self.distance_sent)
        except ValueError:
            return None

    @property
    def bookable(self) -> bool:
        return any(one.startswith(BOOKABLE_PREFIX) for one in self.capabilities)


class PscInfo(Payload):
    """At most 30 centres of one lab."""

    lab_id: int
    slug: str = ""
    patient_service_centers: list[Site] = field(default_factory=list)


APPOINTMENT = Reader(Appointment)
_AREA = Reader(AreaInfo)
_SITES = Reader(PscInfo)


class Appointments(Chapter):
    """Read calls of appointments.md 1 and 4. A radius is a text of miles: 10, 20, 25, 50, 100."""

    def phlebotomy(self, order_id: UUID | str) -> Record[Appointment]:
        """The active at-home appointment; Missing when there is none."""
        path = "/v3/order/{order_id}/phlebotomy/appointment"
        return self._call.record(path, APPOINTMENT, order_id=order_id)

    def psc(self, order_id: UUID | str) -> Record[Appointment]:
        """The active appointment at a patient service center; Missing when there is none."""
        path = "/v3/order/{order_id}/psc/appointment"
        return self._call.record(path, APPOINTMENT, order_id=order_id)

    def area_info(
        self,
        zip_code: str,
        radius: str = "25",
        labs: Sequence[str] = (),
        lab_account_id: UUID | str | None = None,
    ) -> Record[AreaInfo]:
        """What is offered near a five-digit zip code."""
        query: dict[str, Any] = {
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
        """Centres of a lab near a zip code."""
        query: dict[str, Any] = {
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
        """Centres that can take this order's draw."""
        query: dict[str, Any] = {"radius": radius, "capabilities": capabilities}
        return self._call.record(
            "/v3/order/{order_id}/psc/info", _SITES, query=query, order_id=order_id
        )
