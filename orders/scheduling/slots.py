"""The times there are: looked up at the service, grouped by the draw's days, ready to be chosen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import msgspec
from django.utils import timezone

from backoffice.service import Service, errors
from backoffice.service import appointments as service_appointments
from backoffice.templatetags.ages import zone_name, zone_of
from orders.scheduling import rules
from orders.visit_zones import Basis, VisitZone, visit_zone

DAYS: Final = 14
"""What one look-up covers."""
NEAREST: Final = 3
NOON, EVENING = 12, 17
PARTS: Final = {"": "Any time", "morning": "Morning", "midday": "Midday", "afternoon": "Afternoon"}
_HOURS: Final = {"morning": (0, 11), "midday": (11, 14), "afternoon": (14, 24)}
WEEKS: Final = {"": "Both weeks", "1": "First week", "2": "Second week"}
MARGIN: Final = timedelta(seconds=10)
"""A key so close to its end is not sent any more."""


_Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Time(msgspec.Struct, frozen=True, kw_only=True):
    """A time that was offered, as it is chosen, kept and sent. `site` is empty at home."""

    start: _Instant
    zone: str = ""
    state: str = ""
    """Where no zone was given: that of the address, whose zone is assumed."""
    site: str = ""
    expires_at: _Instant | None = None
    key: str

    def written(self) -> str:
        """For a form: whatever codes and keys hold."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> Time:
        """Raises ValueError."""
        try:
            found = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            found = None
        if found is None or not found.key or len(found.key) > 4000 or len(found.site) > 64:
            raise ValueError("not a time that was offered")
        start, zone = found.start.astimezone(UTC), found.zone if zone_of(found.zone) else ""
        return msgspec.structs.replace(found, start=start, zone=zone, state=found.state[:40])

    @property
    def visit_zone(self) -> VisitZone:
        return visit_zone(self.zone, self.state)

    def is_same(self, other: Time) -> bool:
        """The same start at the same place; keys differ between look-ups."""
        return self.start == other.start and self.site == other.site

    @property
    def expired(self) -> bool:
        return self.expires_at is not None and self.expires_at - MARGIN <= timezone.now()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where times are looked up: a patient's address, or centers of a lab by their codes."""

    address: service_appointments.VisitAddress | None = None
    lab: str = ""
    sites: tuple[str, ...] = ()


def look_up(
    service: Service, place: Place, start_date: date | None
) -> service_appointments.Availability | None:
    """Fourteen days of times; None when there are none at all. Raises ServiceError."""
    calls = service.appointments
    try:
        if place.address is not None:
            return calls.phlebotomy_availability(place.address, start_date).data
        return calls.psc_availability(place.lab, site_codes=place.sites, start_date=start_date).data
    except errors.Missing:
        return None


def fresh(service: Service, place: Place, time: Time) -> Time | None:
    """The same time with a key that is good now; None when it is not offered any more."""
    if time.site:
        place = Place(lab=place.lab, sites=(time.site,))
    day = time.start.astimezone(time.visit_zone.zone).date()
    found = look_up(service, place, day)
    for one in found.slots if found else ():
        for slot in one.slots:
            code = one.location.code if one.location else ""
            if slot.start == time.start and slot.booking_key and code == time.site:
                return msgspec.structs.replace(
                    time, key=slot.booking_key, expires_at=slot.expires_at
                )
    return None


@dataclass(slots=True)
class Chip:
    """One time to choose."""

    time: Time
    end: datetime
    local: datetime
    here: datetime
    """The same moment on the staff member's clock."""
    price: float | None = None
    priority: bool = False
    places: int | None = None
    usual: bool = False
    """At the time of day of the visit it replaces."""
    near: bool = False
    """One of the nearest to a time that was chosen and is gone."""
    chosen: bool = False
    soon: bool = False
    dear: bool = False
    """Its price is not the usual one."""

    @property
    def value(self) -> str:
        return self.time.written()

    @property
    def clock(self) -> str:
        """Not for a template's `date`: that would show it on the staff member's clock."""
        return f"{self.local:%H:%M}"

    @property
    def clock_here(self) -> str:
        return f"{self.here:%H:%M}"

    @property
    def two_clocks(self) -> bool:
        return self.local.utcoffset() != self.here.utcoffset()

    @property
    def shift(self) -> str:
        """`+1 d` where the staff member's day is another one."""
        days = (self.here.date() - self.local.date()).days
        return f"{'+' if days > 0 else '−'}{abs(days)} d" if days else ""

    @property
    def few(self) -> bool:
        return self.places == 1

    @property
    def ends(self) -> str:
        return f"{self.end.astimezone(self.local.tzinfo):%H:%M}"


@dataclass(slots=True)
class Group:
    """The times of a day at one place."""

    site: str = ""
    name: str = ""
    distance: float | None = None
    chips: list[Chip] = field(default_factory=list)


@dataclass(slots=True)
class Day:
    """A day of the draw's own calendar."""

    date: date
    groups: list[Group] = field(default_factory=list)

    @property
    def soon(self) -> bool:
        return any(chip.soon for group in self.groups for chip in group.chips)


@dataclass(slots=True)
class Wishes:
    """What a person wants to see of the times."""

    start_date: date | None = None
    part: str = ""
    week: str = ""
    same: bool = False
    chosen: Time | None = None
    """Kept when it is offered still; else the nearest are marked."""


@dataclass(slots=True)
class Offer:
    """The list of times as it is shown."""

    days: list[Day]
    first: date
    today: date
    """Where the draw is."""
    zones: list[str]
    """Names of the zones that the times are in, as people say them."""
    here: str
    """The staff member's zone, where it shows another clock; empty where both agree."""
    expires_at: datetime | None
    hidden: int
    """Times that the filters leave out."""
    gone: Time | None = None
    """A chosen time that is not offered any more."""
    apart: Chip | None = None
    """The chosen time, where it is on another day or at another center than those listed."""
    price: float | None = None
    """The usual one; nothing where there are no prices."""

    @property
    def last(self) -> date:
        return self.first + timedelta(days=DAYS - 1)

    @property
    def later(self) -> date:
        return self.first + timedelta(days=DAYS)

    @property
    def earlier(self) -> date | None:
        """None before today."""
        start = max(self.first - timedelta(days=DAYS), self.today)
        return start if start < self.first else None

    @property
    def seconds(self) -> int:
        """Until the list is to be read anew."""
        if self.expires_at is None:
            return 0
        left = (self.expires_at - MARGIN - timezone.now()).total_seconds()
        return max(int(left), 1)

    def zone_words(self) -> str:
        return " and ".join(self.zones)


def offer(
    found: service_appointments.Availability | None,
    wishes: Wishes,
    *,
    kept: datetime | None = None,
    kept_zone: VisitZone | None = None,
    apart: Time | None = None,
    state: str = "",
) -> Offer:
    """What was found, by day and place, as wished. `kept`: the start of the visit that stands;
    `apart`: the chosen time with a good key, where it is not among those found; `state`: that of
    the address where blood is drawn, if it is not at a center."""
    chips = list(_chips(found, state))
    now = timezone.now()
    usual = _time_of_day(kept, kept_zone)
    price = min((chip.price for _, chip in chips if chip.price), default=None)
    for _, chip in chips:
        chip.dear = bool(chip.price) and chip.price != price
        chip.usual = usual is not None and f"{chip.local:%H:%M}" == usual
        chip.soon = chip.time.start - now < rules.SOON
    today = min(
        (now.astimezone(chip.local.tzinfo).date() for _, chip in chips),
        default=timezone.localdate(),
    )
    first = wishes.start_date or min((chip.local.date() for _, chip in chips), default=today)
    gone = None if apart is not None else _choose(chips, wishes.chosen)
    shown = [pair for pair in chips if _wanted(pair[1], wishes, first)]
    offsets = {chip.local.utcoffset() for _, chip in shown}
    heres = {chip.here.utcoffset() for _, chip in shown}
    return Offer(
        days=_days(shown),
        first=first,
        today=today,
        zones=sorted({_zone_words(chip.local, chip.time.visit_zone.note) for _, chip in shown}),
        here=_zone_words(timezone.localtime()) if offsets != heres or len(offsets) > 1 else "",
        expires_at=min((c.time.expires_at for _, c in chips if c.time.expires_at), default=None),
        hidden=len(chips) - len(shown),
        gone=gone,
        apart=_chip_apart(apart),
        price=price,
    )


def is_found(found: service_appointments.Availability | None, time: Time) -> bool:
    """Whether the time is among those found."""
    return any(chip.time.is_same(time) for _, chip in _chips(found))


def _chip_apart(time: Time | None) -> Chip | None:
    if time is None:
        return None
    local, here = time.start.astimezone(time.visit_zone.zone), timezone.localtime(time.start)
    return Chip(time, time.start, local, here, chosen=True)


def _chips(
    found: service_appointments.Availability | None, state: str = ""
) -> Iterable[tuple[Group, Chip]]:
    for one in found.slots if found else ():
        location = one.location
        there = location.address.state if location and location.address else state
        zone = visit_zone(found.zone_of(one) if found else None, there)
        group = Group()
        if location is not None:
            group = Group(location.code, location.name, location.distance)
        for slot in one.slots:
            if slot.booking_key is None:
                continue
            time = Time(
                start=slot.start.astimezone(UTC),
                zone=zone.name if zone.is_given else "",
                state="" if zone.is_given else there,
                site=group.site,
                expires_at=slot.expires_at,
                key=slot.booking_key,
            )
            yield (
                group,
                Chip(
                    time,
                    slot.end,
                    slot.start.astimezone(zone.zone),
                    timezone.localtime(slot.start),
                    slot.price,
                    slot.is_priority,
                    slot.places,
                ),
            )


def _time_of_day(moment: datetime | None, zone: VisitZone | None) -> str | None:
    if moment is None or zone is None or zone.basis is Basis.UNKNOWN:
        return None
    return f"{moment.astimezone(zone.zone):%H:%M}"


def _choose(chips: Sequence[tuple[Group, Chip]], wanted: Time | None) -> Time | None:
    """Keep the choice where its start is offered still; else mark the nearest, and say so."""
    if wanted is None:
        return None
    for _, chip in chips:
        if chip.time.is_same(wanted):
            chip.chosen = True
            return None
    by_distance = sorted(chips, key=lambda pair: abs(pair[1].time.start - wanted.start))
    for _, chip in by_distance[:NEAREST]:
        chip.near = True
    return wanted


def _wanted(chip: Chip, wishes: Wishes, first: date) -> bool:
    if chip.near or chip.chosen:
        return True
    low, high = _HOURS.get(wishes.part, (0, 24))
    if not low <= chip.local.hour < high:
        return False
    second = (chip.local.date() - first).days >= DAYS // 2
    if wishes.week and second != (wishes.week == "2"):
        return False
    return chip.usual or not wishes.same


def _days(pairs: Sequence[tuple[Group, Chip]]) -> list[Day]:
    days: dict[date, Day] = {}
    for group, chip in sorted(pairs, key=lambda pair: pair[1].time.start):
        day = days.setdefault(chip.local.date(), Day(chip.local.date()))
        mine = next((one for one in day.groups if one.site == group.site), None)
        if mine is None:
            mine = Group(group.site, group.name, group.distance)
            day.groups.append(mine)
        mine.chips.append(chip)
    return list(days.values())


def _zone_words(local: datetime, note: str = "") -> str:
    """`MST (America/Phoenix)`: two zones may share their letters."""
    zone = local.tzinfo
    key = zone.key.replace("_", " ") if isinstance(zone, ZoneInfo) else ""
    name = zone_name(local)
    words = f"{name} ({key})" if key and key != name else name
    return f"{words}, {note}" if note else words
