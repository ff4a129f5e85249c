"""Events about connected sources: each is a reason to read the user's connections again.

Interface: webhooks, chapters 4.3 and 4.4; users, chapter 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from backoffice import sync
from backoffice.service.events import Heard, Misread, typed
from backoffice.service.payload import Reader
from patients.sync import unknown_patients


class _Whose(msgspec.Struct):
    """All that is needed of these events: the rest of them is read from the connections."""

    user_id: UUID | None = None


_WHOSE = Reader(_Whose)


def handle_connections(events: Sequence[Heard]) -> Mapping[str, str]:
    """A source was connected or stopped working, or a device came or changed, which have no list of
    their own: what the user is connected to now is asked for."""
    _look_up([_user(event) for event in events])
    return {event.message_id: "looked up" for event in events}


def _user(event: Heard) -> UUID:
    user_id = typed(_WHOSE, event).user_id or event.user_id
    if user_id is None:
        raise Misread("$.user_id", "missing")
    return user_id


def _look_up(users: Sequence[UUID]) -> None:
    sync.schedule_lookups("users", unknown_patients(users))
    sync.schedule_lookups("connections", users)
