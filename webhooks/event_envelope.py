"""What stands on the outside of an event: read when it is received, and again to apply it.

Nothing here quotes the body: reasons are words about types.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from backoffice.service import events
from backoffice.service.events import Heard, Misread
from backoffice.service.json_text import needs_replacing
from backoffice.service.payload import explain

_NONE = msgspec.Raw(b"null")
_SUBJECT_LETTERS = 100
_QUOTE = re.compile("['\"]")
_READER_ERROR = re.compile(
    r"((?:Expected|Invalid|Object|Input|JSON|Integer|Number)[^'\"]{0,150}) at (\$[^\s'\"]{0,200})"
)
"""What the client's readers say of a value that does not fit its type."""

ATTEMPT_EXHAUSTED = "message.attempt.exhausted"
"""The notice that a message was given up: the one event without the envelope (webhooks, 1)."""

_WRAPPED_NOTICE = b'{"event_type":"' + ATTEMPT_EXHAUSTED.encode() + b'","data":%b}'


class _Notice(msgspec.Struct, gc=False):
    type: str
    data: msgspec.Raw = _NONE


class _Ids(msgspec.Struct, gc=False):
    """As sent: an id that is not in its shape must not hide the others."""

    order_id: msgspec.Raw = _NONE
    workout_id: msgspec.Raw = _NONE
    id: msgspec.Raw = _NONE
    job_id: msgspec.Raw = _NONE
    user_id: msgspec.Raw = _NONE


class _Team(msgspec.Struct, gc=False):
    team_id: msgspec.Raw = _NONE


_MAX_CANONICAL_DEPTH: Final = 8
"""Levels of nesting that are looked through at once; the interface's own records have fewer."""


def _canonical_type() -> Any:
    """The type of a value that is sound by its type: not too deep, whole numbers of 64 bits."""
    whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    scalar: Any = bool | whole | float | str | None
    found = scalar
    for _ in range(_MAX_CANONICAL_DEPTH):
        found = scalar | list[found] | dict[str, found]  # type: ignore[valid-type]
    return found


_envelope = msgspec.json.Decoder(events.Envelope).decode
_value = msgspec.json.Decoder(_canonical_type()).decode
_bytes = msgspec.json.Encoder().encode
_notice = msgspec.json.Decoder(_Notice).decode
_ids = msgspec.json.Decoder(_Ids).decode
_team = msgspec.json.Decoder(_Team).decode
_text = msgspec.json.Decoder(str).decode
_id = msgspec.json.Decoder(UUID).decode


def read(body: bytes) -> events.Envelope:
    """The envelope of an event; raises Misread when the body is no sound event at all."""
    try:
        if _is_canonical(body):
            return _envelope(body)
    except (ValueError, RecursionError):
        pass  # looked through again, with what is tolerated and words for what is not
    try:
        return events.read(body)
    except Misread:
        try:
            notice = _notice(body)
        except (ValueError, RecursionError):
            notice = None
        if notice is None or notice.type != ATTEMPT_EXHAUSTED:
            raise
        # Looked through whole, as every other body is: wrapped, it has the shape that is read.
        events.read(_WRAPPED_NOTICE % body)
        return events.Envelope(event_type=ATTEMPT_EXHAUSTED, data=notice.data)


def _is_canonical(body: bytes) -> bool:
    """Whether a body is sound at a glance: written again from its value it is the same bytes, so no
    name is given twice. What is written another way may be sound, too. Raises ValueError."""
    return _bytes(_value(body)) == body and not needs_replacing(body)


def read_stored(body: bytes) -> events.Envelope:
    """The same for an event that comes straight from being received, where its body was found
    sound: looked through again only where its envelope does not read at once."""
    try:
        return _envelope(body)
    except (ValueError, RecursionError):
        return read(body)


def subject(envelope: events.Envelope) -> tuple[str, UUID | None]:
    """What and whom an event is about, as far as it says: the order where there is one, else the
    id of the record it brings; and the user."""
    data = bytes(envelope.data)
    ids = _Ids()
    if data[:1] == b"{":
        ids = _ids(data)
    user_id = envelope.user_id or _uuid(ids.user_id)
    for sent in (ids.order_id, ids.workout_id, ids.id, ids.job_id):
        if sent is _NONE:
            continue
        # In one spelling, so that a page finds it by what the mirror calls the record.
        known = _uuid(sent)
        found = str(known) if known else _text_or_empty(sent)
        if found:
            return found[:_SUBJECT_LETTERS], user_id
    return "", user_id


def teams(envelope: events.Envelope) -> set[UUID]:
    """The teams an event says it is of: around its data, and inside."""
    data = bytes(envelope.data)
    inside = _uuid(_team(data).team_id) if data[:1] == b"{" else None
    return {team for team in (envelope.team_id, inside) if team}


def received_event(
    number: int, message_id: str, received_at: datetime, envelope: events.Envelope
) -> Heard:
    return Heard(
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
    """Reason and path of a failure in words about types; its class where the text may quote."""
    if isinstance(error, Misread):
        return error.reason[:200], error.path[:200]
    if isinstance(error, msgspec.DecodeError):
        path, reason = explain(error)
        if not _QUOTE.search(reason + path):
            return reason[:200], path[:200]
    elif type(error) is ValueError and (told := _READER_ERROR.fullmatch(str(error))):
        return told[1], told[2]
    return type(error).__name__, ""


def _text_or_empty(sent: msgspec.Raw) -> str:
    try:
        return _text(sent)
    except ValueError:
        return ""  # no text


def _uuid(sent: msgspec.Raw) -> UUID | None:
    try:
        return _id(sent)
    except ValueError:
        return None
