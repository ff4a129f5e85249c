"""Changes of a connection's data between two moments, as webhook events (webhooks.md 4.7).

Events are the difference between the answers of the reads at both moments, so a client that applies
all of them has the same data as a read returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sandbox.event_queue import Event
from sandbox.wearables import devices, streams
from sandbox.wearables.links import Link
from sandbox.wearables.measurements import Measure
from sandbox.wearables.resources import BY_EVENT, DATA_SOURCES, RESOURCES, STREAM, SUMMARIES
from sandbox.wearables.samples import by_source, changed_measures, held_measures
from sandbox.wearables.summaries import CYCLE_DAYS, FURTHEST_DAYS, summaries
from sandbox.wearables.wearers import moment

MOST_SAMPLES = 300
Record = dict[str, Any]
Wanted = frozenset[str]
ALL: Wanted = frozenset((*SUMMARIES, STREAM, *BY_EVENT))


def events_between(link: Link, after: int, upto: int) -> list[Event]:
    """Return events of everything new or corrected after one moment, until another."""
    found = list(_devices(link, after, upto))
    for place, offer in enumerate(DATA_SOURCES):
        if offer.provider != link.provider:
            continue
        for kind in offer.summaries:
            found += _summaries(link, place, kind, after, upto)
        for resource in offer.timeseries:
            name = RESOURCES[resource].event
            if name is None:
                continue
            new, corrected = changed_measures(link, place, resource, after, upto)
            for verb, part in (("created", new), ("updated", corrected)):
                kind = f"daily.data.{name}.{verb}"
                found += _batches(link, place, resource, kind, part, upto)
    return found


def events_of_days(link: Link, days: int, wanted: Wanted, as_of: int) -> list[Event]:
    """Return events of everything of the last days as it reads now, as if it were new."""
    day = link.who.day_of(as_of)
    start = link.who.starts(day - days + 1)
    found: list[Event] = []
    for place, offer in enumerate(DATA_SOURCES):
        if offer.provider != link.provider:
            continue
        for kind in offer.summaries:
            records = list(summaries(link, place, kind, day - days + 1, day, as_of))
            if kind in wanted:
                found += [
                    _event(link, f"daily.data.{kind}.created", each, as_of) for each in records
                ]
            if kind == "workouts" and STREAM in wanted:
                found += _streams(link, place, range(day - days + 1, day + 1), as_of)
        for resource in offer.timeseries:
            name = RESOURCES[resource].event
            if name in wanted:
                part = list(held_measures(link, place, resource, start, as_of, as_of))
                kind = f"daily.data.{name}.created"
                found += _batches(link, place, resource, kind, part, as_of)
    return found


def _event(link: Link, kind: str, data: Record, at: int) -> Event:
    return Event(kind, link.who.user_id, data, moment(at))


def _batches(
    link: Link,
    place: int,
    resource: str,
    kind: str,
    part: list[tuple[int, Measure]],
    at: int,
) -> Iterator[Event]:
    """Samples by source, at most 300 in an event."""
    for group in by_source(link, place, resource, part, at):
        for first in range(0, len(group.data), MOST_SAMPLES):
            data = {
                "user_id": link.who.user_id,
                "source": group.source,
                "source_id": link.key,
                "data": group.data[first : first + MOST_SAMPLES],
            }
            yield _event(link, kind, data, at)


def _summaries(link: Link, place: int, kind: str, after: int, upto: int) -> Iterator[Event]:
    """Summaries that appeared or changed; a new workout with a stream is followed by its event."""
    who = link.who
    back = CYCLE_DAYS + 1 if kind == "menstrual_cycle" else FURTHEST_DAYS
    live = who.day_of(link.created)
    first, last = max(live, who.day_of(after) - back), who.day_of(upto) + 8
    before = {
        record["id"]: record["updated_at"]
        for record in summaries(link, place, kind, first, last, after)
    }
    new_days = []
    for record in summaries(link, place, kind, first, last, upto):
        told = before.get(record["id"])
        if told == record["updated_at"]:
            continue
        yield _event(link, f"daily.data.{kind}.{'updated' if told else 'created'}", record, upto)
        if told is None and kind == "workouts":
            new_days.append(record["calendar_date"].toordinal())
    yield from _streams(link, place, new_days, upto)


def _streams(link: Link, place: int, days: Iterable[int], at: int) -> Iterator[Event]:
    for day in days:
        data = streams.stream_event(link, place, day, at)
        if data is not None:
            yield _event(link, f"daily.data.{STREAM}.created", data, at)


def _devices(link: Link, after: int, upto: int) -> Iterator[Event]:
    before = dict(devices.placed(link, after)) if after >= link.created else {}
    for place, record in devices.placed(link, upto):
        if place not in before:
            yield _event(link, "provider.device.created", record, upto)
        elif before[place] != record:
            yield _event(link, "provider.device.updated", record, upto)
