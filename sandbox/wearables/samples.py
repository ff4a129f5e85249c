"""Samples as the service shows them at a moment, and what has changed between two moments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Any

from sandbox.wearables import summary_ids
from sandbox.wearables.links import Link, event_name
from sandbox.wearables.measurements import FURTHEST, Measure, measures
from sandbox.wearables.resources import DATA_SOURCES, RESOURCES
from sandbox.wearables.wearers import SPORTS, Wearer, moment

Record = dict[str, Any]


@dataclass(slots=True)
class SourceSamples:
    """Samples of one source (wearables.md 4)."""

    link: Link
    source: Record
    data: list[Record] = field(default_factory=list)


def held_measures(
    link: Link, place: int, resource: str, start: int, end: int, as_of: int
) -> Iterator[tuple[int, Measure]]:
    """Yield what one source has of a range, both ends included, by time, with the local day."""
    low = max(start, link.since(event_name(resource), as_of))
    as_of = link.seen(as_of)
    high = min(end, as_of)
    if low > high:
        return
    who = link.who
    for day in range(who.day_of(low), who.day_of(high) + 1):
        for each in measures(who, place, resource, day):
            if low <= each.at <= high and each.arrives <= as_of:
                yield day, each


def changed_measures(
    link: Link, place: int, resource: str, after: int, upto: int
) -> tuple[list[tuple[int, Measure]], list[tuple[int, Measure]]]:
    """What arrived after one moment and until another, and what was corrected in between.

    History is left out: it is not told sample by sample.
    """
    new: list[tuple[int, Measure]] = []
    corrected: list[tuple[int, Measure]] = []
    for day, each in held_measures(
        link, place, resource, max(link.created, after - FURTHEST), upto, upto
    ):
        if each.arrives > after:
            new.append((day, each))
        elif each.fixed is not None and after < each.fixed <= link.seen(upto):
            corrected.append((day, each))
    return new, corrected


def sample(who: Wearer, place: int, resource: str, day: int, each: Measure, as_of: int) -> Record:
    """A sample as it reads at a moment."""
    kind = RESOURCES[resource]
    at = moment(each.at)
    value = each.first if each.fixed is not None and each.fixed > as_of else each.value
    found: Record = {
        "id": None,
        "timestamp": at,
        "timezone_offset": who.offset(day, each.at) if DATA_SOURCES[place].offset else None,
        "type": each.type,
        "unit": kind.unit,
    }
    if kind.interval:
        found["start"] = at
        found["end"] = moment(each.end)
    if resource != "blood_pressure":
        found["value"] = value
    if each.extra:
        found.update(each.extra)
    return found


def source(link: Link, place: int, each: Measure, day: int) -> Record:
    """The source of a sample; samples of workouts name theirs."""
    found = link.source(DATA_SOURCES[place])
    if each.workout:
        workout = link.who.workout(day)
        sport = SPORTS[workout.sport][2] if workout else None
        found |= {"sport": sport, "workout_id": workout_id(link, place, day)}
    return found


@lru_cache(maxsize=1024)
def _workout_id(seed: int, user: int, place: int, day: int) -> str:
    return summary_ids.make(seed, summary_ids.SummaryKey("workouts", user, place, day, 0))


def workout_id(link: Link, place: int, day: int) -> str:
    """The id of the workout summary of a day."""
    return _workout_id(link.who.seed, link.who.number, place, day)


def by_source(
    link: Link, place: int, resource: str, found: list[tuple[int, Measure]], as_of: int
) -> list[SourceSamples]:
    """The samples by source, in their order."""
    groups: dict[int | None, SourceSamples] = {}
    as_of = link.seen(as_of)
    for day, each in found:
        key = day if each.workout else None
        if key not in groups:
            groups[key] = SourceSamples(link, source(link, place, each, day))
        groups[key].data.append(sample(link.who, place, resource, day, each, as_of))
    return list(groups.values())


Position = tuple[int, int, int]
"""Where a page ended: the connection, the source's place in OFFERS, the last sample's moment."""


def page(
    found: list[Link],
    resource: str,
    start: int,
    end: int,
    as_of: int,
    size: int,
    after: Position | None,
) -> tuple[list[SourceSamples], Position | None]:
    """Return up to `size` samples after `after`, and where they end; None if nothing is left.

    Samples of one moment stay together, so a page can be a few longer.
    """
    groups: list[SourceSamples] = []
    left = size
    sources = [(link, place) for link in found for place, _ in link.offers(resource)]
    if after is not None:
        passed = len(list(takewhile(lambda each: (each[0].key, each[1]) != after[:2], sources)))
        sources = sources[passed:]
    for link, place in sources:
        begin = start
        if after is not None and (link.key, place) == after[:2]:
            begin = after[2] + 1
        taken: list[tuple[int, Measure]] = []
        for day, each in held_measures(link, place, resource, begin, end, as_of):
            if left <= 0 and not (taken and taken[-1][1].at == each.at):
                groups += by_source(link, place, resource, taken, as_of)
                if taken:
                    return groups, (link.key, place, taken[-1][1].at)
                return groups, (link.key, place, begin - 1)
            taken.append((day, each))
            left -= 1
        groups += by_source(link, place, resource, taken, as_of)
    return groups, None
