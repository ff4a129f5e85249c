"""Offered times: looked up at the service, and grouped by the calendar days of the draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import msgspec
from django.utils import timezone
from django.utils.text import get_text_list
from django.utils.translation import gettext, gettext_noop

from backoffice.core.time_formats import hour, zone_name, zone_of
from backoffice.service import Service, errors
from backoffice.service import appointments as service_appointments
from orders.appointment_zones import AppointmentZone, Basis, visit_zone
from orders.rules import appointment_rules

DAYS: Final = 14
"""Number of days in one lookup."""
NEAREST: Final = 3
NOON, EVENING = 12, 17
PARTS: Final = {
    "": gettext_noop("Any time"),
    "morning": gettext_noop("Morning"),
    "midday": gettext_noop("Midday"),
    "afternoon": gettext_noop("Afternoon"),
}
_HOURS: Final = {"morning": (0, 11), "midday": (11, 14), "afternoon": (14, 24)}
WEEKS: Final = {
    "": gettext_noop("Both weeks"),
    "1": gettext_noop("First week"),
    "2": gettext_noop("Second week"),
}
MARGIN: Final = timedelta(seconds=10)
"""A booking key that expires within this time is not sent any more."""


_Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class OfferedTime(msgspec.Struct, frozen=True, kw_only=True):
    """An offered time, as it is chosen, stored and sent. `site` is empty for a draw at home."""

    start: _Instant
    zone: str = ""
    state: str = ""
    """State of the address. Its zone is assumed if the service sent none."""
    site: str = ""
    expires_at: _Instant | None = None
    key: str

    def written(self) -> str:
        """Return the value of the form field. Codes and keys may have any characters."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> OfferedTime:
        """Return the time from a form value. Raises ValueError."""
        try:
            offered = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            offered = None
        if offered is None or not offered.key or len(offered.key) > 4000 or len(offered.site) > 64:
            raise ValueError("not a time that was offered")
        start, zone = offered.start.astimezone(UTC), offered.zone if zone_of(offered.zone) else ""
        return msgspec.structs.replace(offered, start=start, zone=zone, state=offered.state[:40])

    @property
    def visit_zone(self) -> AppointmentZone:
        return visit_zone(self.zone, self.state)

    def is_same(self, other: OfferedTime) -> bool:
        """Whether start and place are the same. Booking keys differ between lookups."""
        return self.start == other.start and self.site == other.site

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at - MARGIN <= timezone.now()


class AppointmentPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place where times are looked up: a patient's address, or centers of a lab by code."""

    address: service_appointments.VisitAddress | None = None
    lab: str = ""
    sites: tuple[str, ...] = ()


def fetch_times(
    service: Service, place: AppointmentPlace, start_date: date | None
) -> service_appointments.Availability | None:
    """Return the times of fourteen days; None if there are none. Raises ServiceError."""
    calls = service.appointments
    try:
        if place.address is not None:
            return calls.phlebotomy_availability(place.address, start_date).data
        return calls.psc_availability(place.lab, site_codes=place.sites, start_date=start_date).data
    except errors.Missing:
        return None


def find_again(service: Service, place: AppointmentPlace, time: OfferedTime) -> OfferedTime | None:
    """Return the same time with a valid booking key; None if it is not offered any more."""
    if time.site:
        place = AppointmentPlace(lab=place.lab, sites=(time.site,))
    day = time.start.astimezone(time.visit_zone.zone).date()
    availability = fetch_times(service, place, day)
    for day_slots in availability.slots if availability else ():
        for slot in day_slots.slots:
            code = day_slots.location.code if day_slots.location else ""
            if slot.start == time.start and slot.booking_key and code == time.site:
                return msgspec.structs.replace(
                    time, key=slot.booking_key, expires_at=slot.expires_at
                )
    return None


@dataclass(slots=True)
class TimeChip:
    """One time that can be chosen."""

    time: OfferedTime
    end: datetime
    local: datetime
    here: datetime
    """The same time in the zone of the staff member."""
    price: float | None = None
    priority: bool = False
    places: int | None = None
    usual: bool = False
    """Whether it has the time of day of the appointment that it replaces."""
    near: bool = False
    """Whether it is one of the nearest to a chosen time that is no longer offered."""
    chosen: bool = False
    """Whether it is the chosen time. If that is no longer offered, the nearest times are marked."""
    soon: bool = False
    dear: bool = False
    """Whether its price is higher than the usual one."""

    @property
    def value(self) -> str:
        return self.time.written()

    @property
    def clock(self) -> str:
        """Return the local time. A template's `date` filter would use the staff member's zone."""
        return hour(self.local)

    @property
    def clock_here(self) -> str:
        return hour(self.here)

    @property
    def two_clocks(self) -> bool:
        return self.local.utcoffset() != self.here.utcoffset()

    @property
    def shift(self) -> str:
        """Return `+1 d` or the like if the day is different in the staff member's zone."""
        days = (self.here.date() - self.local.date()).days
        return f"{'+' if days > 0 else '−'}{abs(days)} d" if days else ""

    @property
    def few(self) -> bool:
        return self.places == 1

    @property
    def ends(self) -> str:
        return hour(self.end.astimezone(self.local.tzinfo))


@dataclass(slots=True)
class SiteTimes:
    """The times of a day at one place."""

    site: str = ""
    name: str = ""
    distance: float | None = None
    chips: list[TimeChip] = field(default_factory=list)


@dataclass(slots=True)
class DayTimes:
    """The times of one calendar day at the place of the draw."""

    date: date
    groups: list[SiteTimes] = field(default_factory=list)

    @property
    def soon(self) -> bool:
        return any(chip.soon for group in self.groups for chip in group.chips)


@dataclass(slots=True)
class TimeFilters:
    """Filters of the list of times."""

    start_date: date | None = None
    part: str = ""
    week: str = ""
    same: bool = False
    chosen: OfferedTime | None = None
    """The chosen time. If it is no longer offered, the nearest times are marked."""


@dataclass(slots=True)
class TimeList:
    """The list of times as the page shows it."""

    days: list[DayTimes]
    first: date
    today: date
    """Today at the place of the draw."""
    zones: list[str]
    """Names of the zones of the times."""
    here: str
    """The staff member's zone if its clock differs; empty if both clocks agree."""
    expires_at: datetime | None
    hidden: int
    """Number of times that the filters hide."""
    gone: OfferedTime | None = None
    """The chosen time, if it is not offered any more."""
    apart: TimeChip | None = None
    """The chosen time, if it is on another day or at another center than the listed ones."""
    price: float | None = None
    """The usual price; None if there are no prices."""

    @property
    def last(self) -> date:
        return self.first + timedelta(days=DAYS - 1)

    @property
    def later(self) -> date:
        return self.first + timedelta(days=DAYS)

    @property
    def earlier(self) -> date | None:
        """Return the start of the earlier period; None if that is before today."""
        start = max(self.first - timedelta(days=DAYS), self.today)
        return start if start < self.first else None

    @property
    def seconds(self) -> int:
        """Return the seconds until the page must load the list again."""
        if self.expires_at is None:
            return 0
        seconds_left = (self.expires_at - MARGIN - timezone.now()).total_seconds()
        return max(int(seconds_left), 1)

    def zone_words(self) -> str:
        return get_text_list(self.zones, gettext("and"))


def build_time_list(
    availability: service_appointments.Availability | None,
    time_filters: TimeFilters,
    *,
    current_start: datetime | None = None,
    current_zone: AppointmentZone | None = None,
    apart: OfferedTime | None = None,
    state: str = "",
) -> TimeList:
    """Return the filtered times by day and place.

    `current_start`: the start of the active appointment. `apart`: the chosen time with a valid key,
    if it is not in the list. `state`: that of the address, unless the draw is at a center.
    """
    chips = list(_chips(availability, state))
    now = timezone.now()
    current_clock = _time_of_day(current_start, current_zone)
    price = min((chip.price for _, chip in chips if chip.price), default=None)
    for _, chip in chips:
        chip.dear = bool(chip.price) and chip.price != price
        chip.usual = current_clock is not None and hour(chip.local) == current_clock
        chip.soon = chip.time.start - now < appointment_rules.SOON
    today = min(
        (now.astimezone(chip.local.tzinfo).date() for _, chip in chips),
        default=timezone.localdate(),
    )
    first = time_filters.start_date or min((chip.local.date() for _, chip in chips), default=today)
    missing_time = None if apart is not None else _mark_chosen(chips, time_filters.chosen)
    shown_chips = [pair for pair in chips if _is_shown(pair[1], time_filters, first)]
    offsets = {chip.local.utcoffset() for _, chip in shown_chips}
    own_offsets = {chip.here.utcoffset() for _, chip in shown_chips}
    return TimeList(
        days=_days(shown_chips),
        first=first,
        today=today,
        zones=sorted(
            {_zone_words(chip.local, chip.time.visit_zone.note) for _, chip in shown_chips}
        ),
        here=_zone_words(timezone.localtime())
        if offsets != own_offsets or len(offsets) > 1
        else "",
        expires_at=min(
            (chip.time.expires_at for _, chip in chips if chip.time.expires_at), default=None
        ),
        hidden=len(chips) - len(shown_chips),
        gone=missing_time,
        apart=_chip_apart(apart),
        price=price,
    )


def is_listed(availability: service_appointments.Availability | None, time: OfferedTime) -> bool:
    """Whether the time is in the list."""
    return any(chip.time.is_same(time) for _, chip in _chips(availability))


def _chip_apart(time: OfferedTime | None) -> TimeChip | None:
    if time is None:
        return None
    local, own_time = time.start.astimezone(time.visit_zone.zone), timezone.localtime(time.start)
    return TimeChip(time, time.start, local, own_time, chosen=True)


def _chips(
    availability: service_appointments.Availability | None, state: str = ""
) -> Iterable[tuple[SiteTimes, TimeChip]]:
    for day_slots in availability.slots if availability else ():
        location = day_slots.location
        visit_state = location.address.state if location and location.address else state
        zone = visit_zone(availability.zone_of(day_slots) if availability else None, visit_state)
        group = SiteTimes()
        if location is not None:
            group = SiteTimes(location.code, location.name, location.distance)
        for slot in day_slots.slots:
            if slot.booking_key is None:
                continue
            time = OfferedTime(
                start=slot.start.astimezone(UTC),
                zone=zone.name if zone.is_given else "",
                state="" if zone.is_given else visit_state,
                site=group.site,
                expires_at=slot.expires_at,
                key=slot.booking_key,
            )
            yield (
                group,
                TimeChip(
                    time,
                    slot.end,
                    slot.start.astimezone(zone.zone),
                    timezone.localtime(slot.start),
                    slot.price,
                    slot.is_priority,
                    slot.places,
                ),
            )


def _time_of_day(moment: datetime | None, zone: AppointmentZone | None) -> str | None:
    if moment is None or zone is None or zone.basis is Basis.UNKNOWN:
        return None
    return hour(moment.astimezone(zone.zone))


def _mark_chosen(
    chips: Sequence[tuple[SiteTimes, TimeChip]], chosen: OfferedTime | None
) -> OfferedTime | None:
    """Mark the chosen time if it is still offered.

    Otherwise mark the nearest times, and return the chosen one.
    """
    if chosen is None:
        return None
    for _, chip in chips:
        if chip.time.is_same(chosen):
            chip.chosen = True
            return None
    by_distance = sorted(chips, key=lambda pair: abs(pair[1].time.start - chosen.start))
    for _, chip in by_distance[:NEAREST]:
        chip.near = True
    return chosen


def _is_shown(chip: TimeChip, time_filters: TimeFilters, first: date) -> bool:
    if chip.near or chip.chosen:
        return True
    low, high = _HOURS.get(time_filters.part, (0, 24))
    if not low <= chip.local.hour < high:
        return False
    second = (chip.local.date() - first).days >= DAYS // 2
    if time_filters.week and second != (time_filters.week == "2"):
        return False
    return chip.usual or not time_filters.same


def _days(pairs: Sequence[tuple[SiteTimes, TimeChip]]) -> list[DayTimes]:
    days: dict[date, DayTimes] = {}
    for site, chip in sorted(pairs, key=lambda pair: pair[1].time.start):
        day = days.setdefault(chip.local.date(), DayTimes(chip.local.date()))
        group = next((listed for listed in day.groups if listed.site == site.site), None)
        if group is None:
            group = SiteTimes(site.site, site.name, site.distance)
            day.groups.append(group)
        group.chips.append(chip)
    return list(days.values())


def _zone_words(local: datetime, note: str = "") -> str:
    """Return the zone, such as `MST (America/Phoenix)`: two zones may share an abbreviation."""
    zone = local.tzinfo
    key = zone.key.replace("_", " ") if isinstance(zone, ZoneInfo) else ""
    name = zone_name(local)
    words = f"{name} ({key})" if key and key != name else name
    return f"{words}, {note}" if note else words
