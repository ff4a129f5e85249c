"""Webhook events: the envelope, the payloads, and the event that handlers receive.

A body is read in two steps. :func:`read` parses the envelope when the event is received. It raises
:class:`Misread` for content that later readers cannot process safely: invalid JSON, numbers out of
range, NUL characters, repeated names in an object, and nesting that is too deep. The ``data``
inside stays byte for byte as received. The readers below parse it when the event is applied.

Interface: webhooks, chapters 2 to 4.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import field

from backoffice.service.payload import (
    NEVER,
    Instant,
    Payload,
    Reader,
    Unreadable,
    Word,
    either,
    explain,
)
from backoffice.service.users import ProviderPayload, ResourceAvailability
from backoffice.service.wearables.source import SourcePayload
from backoffice.service.wearables.summaries import Sport, sport

T = TypeVar("T")

DEEPEST = 64
"""Levels of nesting that are read; the records of the interface have fewer than ten."""

_WHOLE = 2**63
_HARMLESS = frozenset({str, float, bool, type(None)})
_NAME_APART = re.compile(rb'"[ \t\r\n]+:')
_SHOWN_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,120}")


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """One event of the inbox, with the envelope parsed and `data` as received.

    `number` grows with each receipt and never changes, even when the event is replayed.
    `received_at` is the time of the first delivery by our clock, in aware UTC. `data` is the JSON
    of the envelope's `data`, byte for byte.
    """

    number: int
    message_id: str
    event_type: str
    received_at: datetime
    team_id: UUID | None
    user_id: UUID | None
    client_user_id: str | None
    data: bytes


class Misread(ValueError):
    """A body that is not a valid event.

    ``path`` is such as ``$.user_id``. ``reason`` describes types and never contains a value.
    ``event_type`` is empty when it could not be read.
    """

    def __init__(self, path: str, reason: str, event_type: str = "") -> None:
        super().__init__(path, reason, event_type)
        self.path = path
        self.reason = reason
        self.event_type = event_type

    def __str__(self) -> str:
        return f"{self.reason} at {self.path}"


class EventEnvelope(Payload):
    """The envelope of an event.

    Some events have no user. ``client_user_id`` is the team's own text. ``data`` is the JSON as
    received, byte for byte; it is usually an object.
    """

    event_type: Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
    data: msgspec.Raw
    team_id: UUID | None = None
    user_id: UUID | None = None
    client_user_id: str | None = None


class CriticalResultPayload(Payload):
    """A result that must be reviewed at once; the values are on the result itself.

    ``status``: final, partial. ``interpretation``: normal, abnormal, critical.
    """

    order_id: UUID
    sample_id: str | None = None
    status: str = ""
    interpretation: Word = ""
    team_id: UUID | None = None
    user_id: UUID | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None


class MatchReview(Payload):
    """A result that the service could not match to an order automatically.

    ``id`` is the id of the raw result.
    """

    id: UUID
    status: str = ""
    decision_code: str = ""
    sub_reason_codes: list[str] = field(default_factory=list)
    resolution_action: str | None = None
    resolved_user_id: UUID | None = None
    resolved_order_id: UUID | None = None


class ConnectionCreated(Payload):
    """A user connected a provider.

    The provider is sent as ``provider`` and as the older ``source``. ``external_user_id`` is
    personal data.
    """

    user_id: UUID | None = None
    provider_sent: ProviderPayload | None = field(default=None, name="provider")
    source: ProviderPayload | None = None
    external_user_id: str | None = None
    resource_availability: dict[str, ResourceAvailability] = field(default_factory=dict)

    @property
    def provider(self) -> ProviderPayload | None:
        return either(self.provider_sent, self.source)


class ConnectionFailed(Payload):
    """A connection stopped working. ``provider`` is a slug.

    Connecting again fixes every ``error_type`` except ``unknown``.
    """

    provider: str
    user_id: UUID | None = None
    message: str = ""
    error_type: str = ""
    error_details: str | None = None


class BackfillDone(Payload):
    """The service fetched all history of one resource of one connection: read the range.

    ``provider`` is a slug.
    """

    provider: str
    user_id: UUID | None = None
    start_date: Instant | None = None
    end_date: Instant | None = None


class StreamReady(Payload):
    """The stream of a workout can be read; ``provider_id`` is the provider's id of the workout."""

    workout_id: UUID
    provider_id: str | None = None
    message: str = ""
    sport_sent: Sport | str | None = field(default=None, name="sport")
    source: SourcePayload | None = None
    user_id: UUID | None = None

    @property
    def sport(self) -> Sport | None:
        return sport(self.sport_sent)


CRITICAL_RESULT = Reader(CriticalResultPayload)
MATCH_REVIEW = Reader(MatchReview)
CONNECTION_CREATED = Reader(ConnectionCreated)
CONNECTION_FAILED = Reader(ConnectionFailed)
BACKFILL_DONE = Reader(BackfillDone)
STREAM_READY = Reader(StreamReady)

_ENVELOPE = Reader(EventEnvelope)
_anything = msgspec.json.Decoder().decode


def read(raw_body: bytes) -> EventEnvelope:
    """Return the envelope of an event, with its ``data`` validated; raises Misread."""
    envelope = _ENVELOPE.read(raw_body, NEVER)
    event_type = ""
    if not isinstance(envelope, Unreadable):
        event_type = envelope.data.event_type
    problem = _unsafe_content(raw_body)
    if isinstance(envelope, Unreadable):
        path, reason = problem or (envelope.path, envelope.reason)
        raise Misread(path, reason)
    if problem is not None:
        raise Misread(*problem, event_type if _SHOWN_TYPE.fullmatch(event_type) else "")
    return envelope.data


def parse_event_data(reader: Reader[T], event: ReceivedEvent) -> T:
    """Return the data of an event in its type; raises Misread when it does not fit."""
    record = reader.read(event.data, event.received_at)
    if isinstance(record, Unreadable):
        raise misread_data(record)
    return record.data


def misread_data(data: Unreadable) -> Misread:
    """Return the error for event data that does not fit its type."""
    return Misread(data.path.replace("$", "$.data", 1), data.reason)


def _unsafe_content(body: bytes) -> tuple[str, str] | None:
    """Return path and reason of the first unsafe content in a body, or None."""
    try:
        value = _anything(body)
    except (ValueError, RecursionError) as error:
        return explain(error)
    if type(value) is not dict:
        return "$", "Expected `object`"
    names = 0
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        values: list[Any] = []
        for holder in level:
            if type(holder) is dict:
                names += len(holder)
                holder = holder.values()
            values += [value for value in holder if type(value) not in _HARMLESS]
        if any(not -_WHOLE <= value < _WHOLE for value in values if type(value) is int):
            return "$", "Whole number beyond 64 bits"
        level = [value for value in values if type(value) is not int]
        if not level:
            break
    else:
        return "$", f"More than {DEEPEST} levels of nesting"
    # A full parse to find repeated names is slow. It runs only when a count of the names in the
    # bytes does not match.
    doubtful = body.count(b'":') != names or _NAME_APART.search(body)
    if doubtful and _has_duplicate_member(body):
        return "$", "Object with one name given twice"
    if b"\\u0000" in body and "\0" in _words(value):
        return "$", "Text with a NUL character"
    return None


def _has_duplicate_member(body: bytes) -> bool:
    is_duplicate = False

    def check_names(pairs: list[tuple[str, object]]) -> None:
        nonlocal is_duplicate
        is_duplicate = is_duplicate or len({name for name, _ in pairs}) < len(pairs)

    json.loads(body.decode(), object_pairs_hook=check_names)
    return is_duplicate


def _words(value: object) -> str:
    """Return all the text in a value, names included."""
    if isinstance(value, dict):
        return "".join(map(_words, chain(value, value.values())))
    if isinstance(value, list):
        return "".join(map(_words, value))
    return value if isinstance(value, str) else ""
