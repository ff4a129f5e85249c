"""What labs and providers offer near a zip code, and the patient service centers.

Interface: appointments.
"""

from __future__ import annotations

from typing import Any

from msgspec import field

from backoffice.service.json_text import JsonObject
from backoffice.service.payload import Payload

BOOKABLE_PREFIX = "appointment_scheduling_via_"
"""Prefix of the capability of a site that can be booked through the service; a brand follows."""


class LngLat(Payload):
    """A position in degrees."""

    lng: float | None = None
    lat: float | None = None


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
    """The walk-in collection that a lab offers near a zip code.

    Samples place the same fields differently, so ``patient_service_centers`` is stored as received
    and the properties read it. ``radius`` is in miles.
    """

    patient_service_centers: Any = None
    supported_bill_types_sent: list[str] | None = field(default=None, name="supported_bill_types")
    lab_id: int | None = None
    within_radius_sent: int | None = field(default=None, name="within_radius")

    @property
    def _centers(self) -> JsonObject:
        sent = self.patient_service_centers
        return sent if isinstance(sent, dict) else {}

    @property
    def supported_bill_types(self) -> list[str]:
        sent = self.supported_bill_types_sent
        if sent is None:
            sent = self._centers.get("supported_bill_types")
        return [str(item) for item in sent] if isinstance(sent, list) else []

    @property
    def within_radius(self) -> int | None:
        """The number of centers within the radius."""
        sent = self._centers.get("within_radius", self.within_radius_sent)
        return int(str(sent)) if str(sent).isdigit() else None

    @property
    def radius(self) -> str | None:
        sent = self._centers.get("radius")
        return None if sent is None else str(sent)

    @property
    def capabilities(self) -> list[str]:
        sent = self._centers.get("capabilities")
        return [str(item) for item in sent] if isinstance(sent, list) else []

    @property
    def bookable(self) -> bool:
        """Return whether these centers can be booked through the service.

        The flag has a name that ends in a brand (differences.md 69).
        """
        return any(
            name.startswith("appointment_with_") and value is True
            for name, value in self._centers.items()
        )


class AreaInfo(Payload):
    zip_code: str
    phlebotomy: AreaPhlebotomy = field(default_factory=AreaPhlebotomy)
    central_labs: dict[str, CentralLab] = field(default_factory=dict)


class SiteMetadata(Payload):
    """Address and contact of a center; when ``hours`` is None, the patient must ask the lab."""

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
    """A patient service center; ``distance`` is sent in miles, as a number or as text."""

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
        return any(name.startswith(BOOKABLE_PREFIX) for name in self.capabilities)


class PscInfo(Payload):
    """At most 30 centers of one lab."""

    lab_id: int
    slug: str = ""
    patient_service_centers: list[Site] = field(default_factory=list)
