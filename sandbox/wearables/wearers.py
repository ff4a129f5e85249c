"""A wearer: where they live, when they sleep, when they move. All times are Unix milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SPORTS = ((1, "Running", "running"), (2, "Cycling", "cycling"), (3, "Swimming", "swimming"))
ZONES = ("America/New_York", "America/Chicago", "America/Los_Angeles", "Europe/London")


def keyed_python_random(*key: object) -> Random:
    """Return random numbers from a key; cheaper than `KeyedRandom` if there are thousands."""
    return Random(int.from_bytes(blake2b(repr(key).encode(), digest_size=8).digest()))


def millis(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def moment(at: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at)


class Night(NamedTuple):
    """A sleep that ends on its day; `stages` are (start, end, code) in turn."""

    start: int
    end: int
    stages: tuple[tuple[int, int, int], ...]


class Workout(NamedTuple):
    """A workout of a day; `sport` indexes SPORTS."""

    start: int
    end: int
    sport: int


@dataclass(frozen=True, slots=True)
class Wearer:
    """The body and habits of a user; a function of the seed and the user."""

    seed: int
    user_id: str
    number: int
    zone: str
    resting: int
    level: float
    bed: float
    asleep: float
    weight: float
    height: int
    female: bool
    wheelchair: bool

    def starts(self, day: int) -> int:
        """When the local day with this ordinal begins."""
        return _starts(self.zone, day)

    def day_of(self, at: int) -> int:
        """The ordinal of the local day of a moment."""
        return moment(at).astimezone(_zone(self.zone)).toordinal()

    def offset(self, day: int, at: int) -> int:
        """Seconds east of UTC at a moment of the local day; clocks change two hours into it."""
        before, after = _offsets(self.zone, day)
        return before if at < self.starts(day) + 2 * HOUR else after

    def night(self, day: int) -> Night:
        return _night(self, day)

    def workout(self, day: int) -> Workout | None:
        return _workout(self, day)

    def awake_span(self, day: int) -> tuple[int, int]:
        """From waking up to falling asleep; the latter may be after the day's end."""
        return self.night(day).end, self.night(day + 1).start


def make_wearer(
    seed: int, user_id: str, number: int, zone: str | None, gender: str | None
) -> Wearer:
    """Return the wearer of a user."""
    dice = keyed_python_random(seed, "wearer", user_id)
    return Wearer(
        seed,
        user_id,
        number,
        zone or dice.choice(ZONES),
        dice.randint(48, 68),
        dice.uniform(0.35, 1.1),
        dice.uniform(-2.3, 0.4),
        dice.uniform(5.9, 8.3),
        dice.uniform(52, 104),
        dice.randint(152, 196),
        gender == "female" if gender in ("female", "male") else dice.random() < 0.5,
        dice.random() < 0.15,
    )


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


@lru_cache(maxsize=8192)
def _starts(zone: str, day: int) -> int:
    return millis(datetime.combine(date.fromordinal(day), datetime.min.time(), _zone(zone)))


@lru_cache(maxsize=8192)
def _offsets(zone: str, day: int) -> tuple[int, int]:
    midnight = datetime.combine(date.fromordinal(day), datetime.min.time(), _zone(zone))
    found = [(midnight + timedelta(hours=hours)).utcoffset() for hours in (0, 12)]
    before, after = (int(each.total_seconds()) if each else 0 for each in found)
    return before, after


@lru_cache(maxsize=4096)
def _night(who: Wearer, day: int) -> Night:
    dice = keyed_python_random(who.seed, "night", who.user_id, day)
    start = who.starts(day) + int((who.bed + dice.uniform(-0.7, 0.9)) * 60) * MINUTE
    length = int((who.asleep + dice.uniform(-1.2, 1.0)) * 60) * MINUTE
    stages = []
    at, end = start, start + length
    cycle = (4, 2, 1, 2, 3)  # awake, light, deep, light, rapid eye movement
    share = (4, 24, 22, 26, 20)
    turn = 0
    while at < end:
        minutes = max(1, int(share[turn % 5] * dice.uniform(0.5, 1.5)))
        until = min(end, at + minutes * MINUTE)
        stages.append((at, until, cycle[turn % 5]))
        at = until
        turn += 1
    return Night(start, end, tuple(stages))


@lru_cache(maxsize=4096)
def _workout(who: Wearer, day: int) -> Workout | None:
    dice = keyed_python_random(who.seed, "workout", who.user_id, day)
    if dice.random() > 0.42:
        return None
    hour = dice.choice((9.5, 12, 17, 17.5, 18))
    start = who.starts(day) + int((hour + dice.uniform(-0.4, 0.4)) * 60) * MINUTE
    return Workout(start, start + dice.randint(20, 75) * MINUTE, dice.randint(0, 2))
