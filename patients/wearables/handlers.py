"""Events about device data. Interface: webhooks 4.5 to 4.7, wearables 2 to 4.

Handlers for the inbox: each takes the events of its kinds in receipt order, inside the drain's
transaction, and raises where one of them cannot be applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from backoffice import sync
from backoffice.service.events import BACKFILL_DONE, STREAM_READY, Heard
from backoffice.service.json_text import needs_replacing
from backoffice.service.payload import Unreadable
from backoffice.service.wearables import SUMMARIES, Samples
from backoffice.service.wearables.timeseries import SAMPLES
from patients.wearables import sample_writer
from patients.wearables.arrivals import Arrival, Origin
from patients.wearables.backfills import BACKFILL, BackfillRange, mark_streams
from patients.wearables.summaries import store_summaries, summary_record
from patients.wearables.sync import PULL_LIST

LOOKED_UP: Final = "looked up"
IGNORED: Final = "ignored"
_decode = msgspec.json.Decoder(Samples).decode
_SAMPLE_OR_MOMENT: Final = re.compile(r"\$\.data(\[\d+\](\.(timestamp|start|value))?)?")
HYPNOGRAM: Final = "hypnogram"
"""Replaced by the sleep cycle; its events are kept in the inbox and that is all."""


def handle_summaries(events: Sequence[Heard]) -> Mapping[str, str] | None:
    """`daily.data.<summary>.created` and `.updated`: the latest received of an id is kept."""
    facts = []
    for event in events:
        resource = resource_of(event)
        said = SUMMARIES[resource].value(event.data)
        user = _user(event, said.user_id)
        facts.append(
            summary_record(resource, user, event.data, said, event.number, event.received_at)
        )
    if store_summaries(facts).unreadable:
        raise ValueError("a summary does not fit its columns")
    return None


def handle_samples(events: Sequence[Heard]) -> Mapping[str, str] | None:
    """`daily.data.<resource>.created` and `.updated` of a timeseries: keep the samples."""
    arrivals = []
    ignored = {}
    for event in events:
        resource = resource_of(event)
        if resource == HYPNOGRAM:
            ignored[event.message_id] = IGNORED
            continue
        came = _samples(event)
        origin = Origin.of(came.source)
        arrivals.append(
            Arrival(_user(event, came.user_id), resource, origin, event.number, came.data)
        )
    sample_writer.store(arrivals)
    return ignored or None


def handle_workout_streams(events: Sequence[Heard]) -> Mapping[str, str] | None:
    """`daily.data.workout_stream.created` and `.updated`: too large to push, so read it."""
    heard = [(event, STREAM_READY.value(event.data)) for event in events]
    mark_streams((said.workout_id, _user(event, said.user_id)) for event, said in heard)
    return dict.fromkeys((event.message_id for event in events), LOOKED_UP)


def handle_backfills(events: Sequence[Heard]) -> Mapping[str, str] | None:
    """`historical.data.<resource>.created`: history is not pushed, so read the range, and see how
    the pull went."""
    outcomes = {}
    ranges = []
    for event in events:
        resource = resource_of(event)
        if resource == HYPNOGRAM:
            outcomes[event.message_id] = IGNORED
            continue
        said = BACKFILL_DONE.value(event.data)
        if said.start_date is None or said.end_date is None:
            raise ValueError("the event does not say which range was fetched")
        user = _user(event, said.user_id)
        dates = (said.start_date, said.end_date)
        ranges.append(BackfillRange(event.number, user, resource, said.provider, *dates).key())
        outcomes[event.message_id] = LOOKED_UP
    sync.schedule_lookups(BACKFILL, ranges)
    if ranges:
        sync.request_run(PULL_LIST)
    return outcomes


def _samples(event: Heard) -> Samples:
    """The samples of an event, without what a `Reader` adds to records that are kept whole."""
    if not needs_replacing(event.data):
        try:
            return _decode(event.data)
        except ValueError:
            pass
    found = SAMPLES.read(event.data, event.received_at)
    if isinstance(found, Unreadable):
        raise ValueError(f"{found.reason} at {found.path}")
    for part in found.dropped:
        # The inbox is the only place that holds the samples of an event: none may be left out.
        if _SAMPLE_OR_MOMENT.fullmatch(part.path):
            raise ValueError(f"{part.reason} at {part.path}")
    return found.data


def resource_of(event: Heard) -> str:
    """`daily.data.heartrate.created` is about `heartrate`."""
    return event.event_type.split(".")[2]


def _user(event: Heard, told: UUID | None) -> UUID:
    user = event.user_id or told
    if user is None:
        raise ValueError("the event does not say whose data it brings")
    return user
