"""The envelope of an event, read on receipt and again before the event is applied.

No error of this module quotes the body: reasons name types, never values.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from backoffice.service import events
from backoffice.service.events import Misread, ReceivedEvent
from backoffice.service.json_text import needs_replacing
from backoffice.service.payload import explain

_NONE = msgspec.Raw(b"null")
_SUBJECT_LETTERS = 100
_QUOTE = re.compile("['\"]")
_READER_ERROR = re.compile(
    r"((?:Expected|Invalid|Object|Input|JSON|Integer|Number)[^'\"]{0,150}) at (\$[^\s'\"]{0,200})"
)
"""Error messages of the client's readers about a value of the wrong type."""

ATTEMPT_EXHAUSTED = "message.attempt.exhausted"
"""The notice that the sender gave up on a message. It is the only event without an envelope
(webhooks, chapter 1).
"""

_WRAPPED_NOTICE = b'{"event_type":"' + ATTEMPT_EXHAUSTED.encode() + b'","data":%b}'


class _Notice(msgspec.Struct, gc=False):
    type: str
    data: msgspec.Raw = _NONE


class _Ids(msgspec.Struct, gc=False):
    """Ids as sent, not parsed: one malformed id must not hide the others."""

    order_id: msgspec.Raw = _NONE
    workout_id: msgspec.Raw = _NONE
    id: msgspec.Raw = _NONE
    job_id: msgspec.Raw = _NONE
    user_id: msgspec.Raw = _NONE


class _Team(msgspec.Struct, gc=False):
    team_id: msgspec.Raw = _NONE


_MAX_CANONICAL_DEPTH: Final = 8
"""Most levels of nesting that the fast check accepts. Records of the interface have fewer."""


def _canonical_type() -> Any:
    """Return the type that the fast check decodes: limited depth, integers of 64 bits."""
    whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    scalar: Any = bool | whole | float | str | None
    canonical = scalar
    for _ in range(_MAX_CANONICAL_DEPTH):
        canonical = scalar | list[canonical] | dict[str, canonical]  # type: ignore[valid-type]
    return canonical


_envelope = msgspec.json.Decoder(events.EventEnvelope).decode
_value = msgspec.json.Decoder(_canonical_type()).decode
_bytes = msgspec.json.Encoder().encode
_notice = msgspec.json.Decoder(_Notice).decode
_ids = msgspec.json.Decoder(_Ids).decode
_team = msgspec.json.Decoder(_Team).decode
_text = msgspec.json.Decoder(str).decode
_id = msgspec.json.Decoder(UUID).decode


def read(body: bytes) -> events.EventEnvelope:
    """Return the envelope of an event. Raise Misread if the body is not a valid event."""
    try:
        if _is_canonical(body):
            return _envelope(body)
    except (ValueError, RecursionError):
        pass  # The slow reader accepts more, and describes what it rejects.
    return read_any_format(body)


def read_any_format(body: bytes) -> events.EventEnvelope:
    """Return the envelope as `read` does, from a body in any format. This is slower."""
    try:
        return events.read(body)
    except Misread:
        try:
            notice = _notice(body)
        except (ValueError, RecursionError):
            notice = None
        if notice is None or notice.type != ATTEMPT_EXHAUSTED:
            raise
        # The whole notice is checked like every other body, after an envelope is put around it.
        events.read(_WRAPPED_NOTICE % body)
        return events.EventEnvelope(event_type=ATTEMPT_EXHAUSTED, data=notice.data)


def _is_canonical(body: bytes) -> bool:
    """Return whether encoding the decoded body gives the same bytes. Raises ValueError.

    Then the body has no duplicate names. A body with other formatting may also be valid.
    """
    return _bytes(_value(body)) == body and not needs_replacing(body)


def read_stored(body: bytes) -> events.EventEnvelope:
    """Return the envelope of an event that was valid on receipt and has not changed since.

    The body is checked again only if its envelope cannot be decoded directly.
    """
    try:
        return _envelope(body)
    except (ValueError, RecursionError):
        return read(body)


def subject(envelope: events.EventEnvelope) -> tuple[str, UUID | None]:
    """Return the ids of the record and of the user that an event is about, if it has them.

    The record is the order if there is one, else the record in the event.
    """
    data = bytes(envelope.data)
    ids = _Ids()
    if data[:1] == b"{":
        ids = _ids(data)
    user_id = envelope.user_id or _uuid(ids.user_id)
    for sent in (ids.order_id, ids.workout_id, ids.id, ids.job_id):
        if sent is _NONE:
            continue
        # Use the mirror's spelling of the id, so that pages find the event by it.
        uuid = _uuid(sent)
        text = str(uuid) if uuid else _text_or_empty(sent)
        if text:
            return text[:_SUBJECT_LETTERS], user_id
    return "", user_id


def teams(envelope: events.EventEnvelope) -> set[UUID]:
    """Return the team ids of an event, from its envelope and from its data."""
    data = bytes(envelope.data)
    team_in_data = _uuid(_team(data).team_id) if data[:1] == b"{" else None
    return {team for team in (envelope.team_id, team_in_data) if team}


def received_event(
    number: int, message_id: str, received_at: datetime, envelope: events.EventEnvelope
) -> ReceivedEvent:
    return ReceivedEvent(
        number,
        message_id,
        envelope.event_type,
        received_at,
        envelope.team_id,
        envelope.user_id,
        envelope.client_user_id,
        bytes(envelope.data),
    )


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return reason and path of a failure.

    The reason is the error message if it names only types. Otherwise it is the name of the error's
    class, because the message may quote a value.
    """
    if isinstance(error, Misread):
        return error.reason[:200], error.path[:200]
    if isinstance(error, msgspec.DecodeError):
        path, reason = explain(error)
        if not _QUOTE.search(reason + path):
            return reason[:200], path[:200]
    elif type(error) is ValueError and (match := _READER_ERROR.fullmatch(str(error))):
        return match[1], match[2]
    return type(error).__name__, ""


def _text_or_empty(sent: msgspec.Raw) -> str:
    try:
        return _text(sent)
    except ValueError:
        return ""


def _uuid(sent: msgspec.Raw) -> UUID | None:
    try:
        return _id(sent)
    except ValueError:
        return None
