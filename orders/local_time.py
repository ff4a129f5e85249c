"""The local time of a patient: whether they may be called now, and when to call them again."""

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
class LocalClock:
    """The clock of a patient. `sure` is False where the state has two zones; `known` is False where
    nothing tells the zone, and times are in UTC.
    """

    zone: ZoneInfo
    city: str
    sure: bool
    known: bool = True

    @property
    def name(self) -> str:
        return self.zone.key

    @property
    def shown(self) -> str:
        """Return the name of the zone where it is known, or an empty text."""
        return self.name if self.known else ""

    def warning(self, now: datetime) -> str:
        """Return `too early`, `too late`, or an empty text."""
        if not self.known:
            return ""
        there = now.astimezone(self.zone).time()
        return "too early" if there < FROM else "too late" if there >= TO else ""

    def morning(self, now: datetime, days: int) -> datetime:
        """Return 10:00 by that clock, `days` from now; on Monday where that is a weekend."""
        day = now.astimezone(self.zone).date() + timedelta(days=days)
        day += timedelta(days=max(0, 7 - day.weekday()) if day.weekday() >= 5 else 0)
        return datetime.combine(day, MORNING, self.zone)


def local_clock_of(order: Order, visit: Appointment | None = None) -> LocalClock:
    """Return the clock by the appointment, the state of the address, or the zone of the patient's
    devices; else UTC.

    It reads `order.user`: select it with the order.
    """
    address = order.said("patient_address")
    city, state = _text(address.get("city")), _text(address.get("state")).upper()
    devices = zone_of(order.user.fallback_time_zone if order.user else None)
    if visit is not None and (found := zone_of(visit.iana_timezone)) is not None:
        return LocalClock(found, city or visit.city, sure=True)
    assumed = state_zone(state)
    if devices is not None and (assumed is None or state in STATES_WITH_TWO_ZONES):
        return LocalClock(devices, city, sure=True)
    if assumed is not None:
        return LocalClock(assumed, city or state, sure=state not in STATES_WITH_TWO_ZONES)
    return LocalClock(ZoneInfo("UTC"), city, sure=False, known=False)


def staff_clock() -> LocalClock:
    """Return the clock of the current user, for orders without somebody to call."""
    return LocalClock(ZoneInfo(timezone.get_current_timezone_name()), "", sure=True)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
