"""Handlers of events about device data. Specification: webhooks 4.5 to 4.7, wearables 2 to 4.

Each handler takes the events of its types in the order of receipt, in the transaction that applies
the events. It raises ValueError if an event cannot be applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from backoffice.service.events import BACKFILL_DONE, STREAM_READY, ReceivedEvent
from backoffice.service.json_text import needs_replacing
from backoffice.service.payload import Unreadable
from backoffice.service.wearables import SUMMARIES, SampleGroup
from backoffice.service.wearables.timeseries import SAMPLES
from backoffice.sync.lookups import schedule_lookups
from backoffice.sync.runs import request_run
from patients.wearables import sample_writer
from patients.wearables.arrivals import SampleBatch, SampleSource
from patients.wearables.backfills import BACKFILL, BackfillRange, schedule_streams
from patients.wearables.summaries import store_summaries, summary_record
from patients.wearables.sync import PULL_LIST

LOOKED_UP: Final = "looked up"
IGNORED: Final = "ignored"
_decode = msgspec.json.Decoder(SampleGroup).decode
_SAMPLE_OR_MOMENT: Final = re.compile(r"\$\.data(\[\d+\](\.(timestamp|start|value))?)?")
HYPNOGRAM: Final = "hypnogram"
"""A resource that the sleep cycle replaces. Its events stay in the inbox and are not applied."""


def handle_summaries(events: Sequence[ReceivedEvent]) -> Mapping[str, str] | None:
    """Apply `daily.data.<summary>.created` and `.updated`. The version received last wins."""
    records = []
    for event in events:
        resource = resource_of(event)
        summary = SUMMARIES[resource].value(event.data)
        user = _user(event, summary.user_id)
        records.append(
            summary_record(resource, user, event.data, summary, event.number, event.received_at)
        )
    if store_summaries(records).unreadable:
        raise ValueError("a summary does not fit its columns")
    return None


def handle_samples(events: Sequence[ReceivedEvent]) -> Mapping[str, str] | None:
    """Apply `daily.data.<resource>.created` and `.updated` of a timeseries: store the samples."""
    batches = []
    ignored = {}
    for event in events:
        resource = resource_of(event)
        if resource == HYPNOGRAM:
            ignored[event.message_id] = IGNORED
            continue
        received = _samples(event)
        source = SampleSource.of(received.source)
        user = _user(event, received.user_id)
        batches.append(SampleBatch(user, resource, source, event.number, received.data))
    sample_writer.store(batches)
    return ignored or None


def handle_workout_streams(events: Sequence[ReceivedEvent]) -> Mapping[str, str] | None:
    """Apply `daily.data.workout_stream.created` and `.updated`: schedule lookups of streams."""
    payloads = [(event, STREAM_READY.value(event.data)) for event in events]
    schedule_streams(
        (payload.workout_id, _user(event, payload.user_id)) for event, payload in payloads
    )
    return dict.fromkeys((event.message_id for event in events), LOOKED_UP)


def handle_backfills(events: Sequence[ReceivedEvent]) -> Mapping[str, str] | None:
    """Apply `historical.data.<resource>.created`, which only announces data.

    Lookups of the range and of the list of pulls are scheduled. The service does not send
    historical data in events.
    """
    outcomes = {}
    ranges = []
    for event in events:
        resource = resource_of(event)
        if resource == HYPNOGRAM:
            outcomes[event.message_id] = IGNORED
            continue
        backfill = BACKFILL_DONE.value(event.data)
        if backfill.start_date is None or backfill.end_date is None:
            raise ValueError("the event does not say which range was fetched")
        user = _user(event, backfill.user_id)
        dates = (backfill.start_date, backfill.end_date)
        ranges.append(BackfillRange(event.number, user, resource, backfill.provider, *dates).key())
        outcomes[event.message_id] = LOOKED_UP
    schedule_lookups(BACKFILL, ranges)
    if ranges:
        request_run(PULL_LIST)
    return outcomes


def _samples(event: ReceivedEvent) -> SampleGroup:
    """Return the samples of an event. The plain decoder is faster than a `Reader`."""
    if not needs_replacing(event.data):
        try:
            return _decode(event.data)
        except ValueError:
            pass
    samples = SAMPLES.read(event.data, event.received_at)
    if isinstance(samples, Unreadable):
        raise ValueError(f"{samples.reason} at {samples.path}")
    for part in samples.dropped:
        # Only the event has these samples, so none may be lost.
        if _SAMPLE_OR_MOMENT.fullmatch(part.path):
            raise ValueError(f"{part.reason} at {part.path}")
    return samples.data


def resource_of(event: ReceivedEvent) -> str:
    """Return the resource of an event: `heartrate` for `daily.data.heartrate.created`."""
    return event.event_type.split(".")[2]


def _user(event: ReceivedEvent, payload_user: UUID | None) -> UUID:
    user = event.user_id or payload_user
    if user is None:
        raise ValueError("the event does not say whose data it brings")
    return user
