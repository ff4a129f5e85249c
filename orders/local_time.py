"""What time it is where a patient is: before one calls them, and when to call them again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from django.utils import timezone

from backoffice.templatetags.ages import zone_of
from orders.models import Appointment, Order
from orders.visit_zones import STATES_WITH_TWO_ZONES, state_zone

FROM, TO = time(8), time(20)
"""When patients may be called, by their own clock."""
MORNING: Final = time(10)


@dataclass(frozen=True, slots=True)
class Place:
    """A patient's clock. `sure` is False where the state has two; not `known`: nothing tells it,
    and times are in UTC."""

    zone: ZoneInfo
    city: str
    sure: bool
    known: bool = True

    @property
    def name(self) -> str:
        return self.zone.key

    @property
    def shown(self) -> str:
        """The zone where it is known; else nothing."""
        return self.name if self.known else ""

    def warning(self, now: datetime) -> str:
        """`too early`, `too late`, or nothing."""
        if not self.known:
            return ""
        there = now.astimezone(self.zone).time()
        return "too early" if there < FROM else "too late" if there >= TO else ""

    def morning(self, now: datetime, days: int) -> datetime:
        """10:00 there, that many days from now; on Monday where that is a weekend."""
        day = now.astimezone(self.zone).date() + timedelta(days=days)
        day += timedelta(days=max(0, 7 - day.weekday()) if day.weekday() >= 5 else 0)
        return datetime.combine(day, MORNING, self.zone)


def place_of(order: Order, visit: Appointment | None = None) -> Place:
    """By the visit, the state of the address, the zone of the patient's devices; else UTC.

    `order.user` is read: select it.
    """
    address = order.said("patient_address")
    city, state = _text(address.get("city")), _text(address.get("state")).upper()
    devices = zone_of(order.user.fallback_time_zone if order.user else None)
    if visit is not None and (found := zone_of(visit.iana_timezone)) is not None:
        return Place(found, city or visit.city, sure=True)
    assumed = state_zone(state)
    if devices is not None and (assumed is None or state in STATES_WITH_TWO_ZONES):
        return Place(devices, city, sure=True)
    if assumed is not None:
        return Place(assumed, city or state, sure=state not in STATES_WITH_TWO_ZONES)
    return Place(ZoneInfo("UTC"), city, sure=False, known=False)


def here() -> Place:
    """The clock of whoever looks: for what is nobody else's time."""
    return Place(ZoneInfo(timezone.get_current_timezone_name()), "", sure=True)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
