"""Slots for blood draws, on the local clock of their venue (appointments.md 2 and 9).

The slots of a venue are a function of the seed, the venue and the hour; what is left of them
depends on the existing appointments.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Q

from sandbox.keyed_random import KeyedRandom, keyed_uuid
from sandbox.models import Appointment, PscSite, ServiceArea

DAYS = 14
PHLEBOTOMY = "phlebotomy"
PSC = "patient_service_center"
VISIT = timedelta(minutes=60)
DRAW = timedelta(minutes=20)
VISIT_HOURS = ("07:00", "16:00")
SITE_HOURS = ("07:00", "16:00")  # where a site tells none
LATEST = "12:00"  # of sites, on later days; today they see people until they close
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ENDED_STATUSES = ("cancelled", "completed")


@dataclass(frozen=True, slots=True)
class Venue:
    """A place with slots: visits of a provider in a zip code, or a service center."""

    kind: str
    provider: str
    code: str
    zone: str = field(default="UTC", compare=False)
    hours: dict[str, str] | None = field(default=None, compare=False)

    def today(self, now: datetime) -> date:
        return now.astimezone(ZoneInfo(self.zone)).date()

    @property
    def length(self) -> timedelta:
        return VISIT if self.kind == PHLEBOTOMY else DRAW

    def opening(self, day: date, now: datetime) -> tuple[str, str] | None:
        """Return the first start and the last end of a day in local time; None if it is closed."""
        if self.kind == PHLEBOTOMY:
            return VISIT_HOURS
        weekday = WEEKDAYS[day.weekday()]
        if self.hours is None:
            found = SITE_HOURS if weekday != "sunday" else None
        else:
            opened = self.hours.get(weekday)
            first, _, last = (opened or "").partition("-")
            found = (first, last) if opened else None
        if found is None or day == self.today(now):
            return found
        return found[0], min(found[1], LATEST)


@dataclass(frozen=True, slots=True)
class Slot:
    venue: Venue
    start: datetime
    end: datetime
    price: int
    is_priority: bool
    capacity: int


@dataclass(slots=True)
class SlotOverrides:
    """Settings of the control path, until the sandbox stops: the status for a slot that is gone at
    a service center; slots taken away; how many bookings at centers get no answer in time, and
    whether those are made all the same."""

    conflict_status: int = 400
    unanswered: int = 0
    made: bool = True
    taken: set[tuple[Venue, datetime]] = field(default_factory=set)


OVERRIDES = SlotOverrides()


def phlebotomy_venue(area: ServiceArea) -> Venue | None:
    """Return the venue of the provider that takes bookings in the area; None if there is none."""
    ready = sorted(name for name, tiers in area.phlebotomy.items() if "appointment-ready" in tiers)
    return Venue(PHLEBOTOMY, ready[0], area.zip_code, area.iana_timezone) if ready else None


def site_venue(site: PscSite) -> Venue:
    return Venue(PSC, site.lab.slug, site.site_code, site.iana_timezone, site.hours)


def offered_slots(seed: int, venue: Venue, day: date, now: datetime) -> list[Slot]:
    """Return the slots of a venue on a local day, from the next full hour on."""
    opening = venue.opening(day, now)
    if opening is None:
        return []
    zone = ZoneInfo(venue.zone)
    first, last = (datetime.combine(day, time.fromisoformat(text)) for text in opening)
    soonest = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    found = []
    # Slots follow the local clock, not UTC.
    while first + venue.length <= last:
        start = first.replace(tzinfo=zone).astimezone(UTC)
        if start >= soonest:
            found.append(_slot(seed, venue, start))
        first += venue.length
    return [slot for slot in found if slot.capacity]


def _slot(seed: int, venue: Venue, start: datetime) -> Slot:
    rng = KeyedRandom(seed, "slot", venue.kind, venue.provider, venue.code, start.isoformat())
    capacity = rng.weighted_choice(((20, 0), (50, 1), (20, 2), (10, 3)))
    is_priority = rng.chance(0.1)
    price = 0 if venue.kind == PSC else 4900 + (1500 if is_priority else 0)
    return Slot(venue, start, start + venue.length, price, is_priority, capacity)


def remaining_slots(slots: Iterable[Slot], except_id: str | None = None) -> list[tuple[Slot, int]]:
    """Return the slots that are free, and how often each is. The appointment `except_id` does not
    count."""
    slots = list(slots)
    if not slots:
        return []
    venue = slots[0].venue
    starts = [slot.start for slot in slots]
    taken = Appointment.objects.filter(
        Q(site__site_code=venue.code, provider=venue.provider)
        if venue.kind == PSC
        else Q(provider=venue.provider, zip_code__startswith=venue.code),
        is_current=True,
        start_at__range=(min(starts), max(starts)),
    ).exclude(event_status__in=ENDED_STATUSES)
    if except_id is not None:
        taken = taken.exclude(id=except_id)
    counts = Counter(taken.values_list("start_at", flat=True))
    return [
        (slot, slot.capacity - counts[slot.start])
        for slot in slots
        if slot.capacity > counts[slot.start] and (venue, slot.start) not in OVERRIDES.taken
    ]


def claim_slot(
    seed: int, venue: Venue, start: datetime, now: datetime, except_id: str | None = None
) -> Slot | None:
    """Return the slot if it is free, and lock it until the transaction ends."""
    lock_name(venue.kind, venue.provider, venue.code, start.isoformat())
    if start <= now:
        return None
    slot = _slot(seed, venue, start)
    return slot if remaining_slots([slot] if slot.capacity else [], except_id) else None


def lock_name(*name: str) -> None:
    """Lock a name until the transaction ends."""
    number = int(keyed_uuid(*name)[:8] + keyed_uuid(*name)[-7:], 16)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
