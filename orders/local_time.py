"""The local time of a patient: whether they may be called now, and when to call them again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.translation import gettext_noop

from backoffice.core.time_formats import zone_of
from orders.appointment_zones import STATES_WITH_TWO_ZONES, state_zone
from orders.models import Appointment, Order

FROM, TO = time(8), time(20)
"""The times of day between which patients may be called, in their own time zone."""
MORNING: Final = time(10)


@dataclass(frozen=True, slots=True)
class LocalClock:
    """The clock of a patient.

    `sure` is False if the state has two zones. `known` is False if the zone is unknown; times are
    then in UTC.
    """

    zone: ZoneInfo
    city: str
    sure: bool
    known: bool = True

    @property
    def name(self) -> str:
        return self.zone.key

    @property
    def known_zone(self) -> str:
        """Return the name of the zone if it is known, else an empty text."""
        return self.name if self.known else ""

    def warning(self, now: datetime) -> str:
        """Return a warning, to be translated, that it is too early or too late to call; or ""."""
        if not self.known:
            return ""
        local_time = now.astimezone(self.zone).time()
        if local_time < FROM:
            return gettext_noop("too early to call")
        return gettext_noop("too late to call") if local_time >= TO else ""

    def morning(self, now: datetime, days: int) -> datetime:
        """Return 10:00 of this clock, `days` from now; on Monday if that day is on a weekend."""
        day = now.astimezone(self.zone).date() + timedelta(days=days)
        day += timedelta(days=max(0, 7 - day.weekday()) if day.weekday() >= 5 else 0)
        return datetime.combine(day, MORNING, self.zone)


def local_clock_of(order: Order, visit: Appointment | None = None) -> LocalClock:
    """Return the clock of the patient.

    Its zone comes from the appointment, the state of the address, or the patient's devices; else it
    is UTC. This reads `order.user`, so select it with the order.
    """
    address = order.record_at("patient_address")
    city, state = _text(address.get("city")), _text(address.get("state")).upper()
    devices = zone_of(order.user.fallback_time_zone if order.user else None)
    if visit is not None and (zone := zone_of(visit.iana_timezone)) is not None:
        return LocalClock(zone, city or visit.city, sure=True)
    assumed = state_zone(state)
    if devices is not None and (assumed is None or state in STATES_WITH_TWO_ZONES):
        return LocalClock(devices, city, sure=True)
    if assumed is not None:
        return LocalClock(assumed, city or state, sure=state not in STATES_WITH_TWO_ZONES)
    return LocalClock(ZoneInfo("UTC"), city, sure=False, known=False)


def staff_clock() -> LocalClock:
    """Return the clock of the current user, for orders without anybody to call."""
    return LocalClock(ZoneInfo(timezone.get_current_timezone_name()), "", sure=True)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
