"""Handlers of events about connected sources. Each event schedules a lookup of the connections.

Specification: webhooks, chapters 4.3 and 4.4; users, chapter 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from backoffice.service.events import Misread, ReceivedEvent, parse_event_data
from backoffice.service.payload import Reader
from backoffice.sync.lookups import schedule_lookups
from patients.sync import unknown_patients


class _UserOnly(msgspec.Struct):
    """The user of the event. The other data is read from the connections at the service."""

    user_id: UUID | None = None


_USER_ONLY = Reader(_UserOnly)


def handle_connections(events: Sequence[ReceivedEvent]) -> Mapping[str, str]:
    """Schedule lookups of the connections of the users of these events.

    The events say that a source was connected or failed, or that a device was added or changed. The
    service has no separate list of devices.
    """
    _look_up([_user(event) for event in events])
    return {event.message_id: "looked up" for event in events}


def _user(event: ReceivedEvent) -> UUID:
    user_id = parse_event_data(_USER_ONLY, event).user_id or event.user_id
    if user_id is None:
        raise Misread("$.user_id", "missing")
    return user_id


def _look_up(users: Sequence[UUID]) -> None:
    schedule_lookups("users", unknown_patients(users))
    schedule_lookups("connections", users)
