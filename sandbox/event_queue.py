"""Events on their way out: one row per message, in the caller's transaction (webhooks.md 2).

Whoever changes the world calls `announce`; `sandbox.deliveries` does the rest. Where no endpoint
wants an event nothing is queued, and nothing is worked out: `anyone_listens` says so first.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from sandbox import clock
from sandbox.models import Message, User, WebhookEndpoint

ALPHABET = string.digits + string.ascii_letters
INSERT_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `at` (the world's time). `data` is JSON-able, or JSON text in an
    `orjson.Fragment`. `user_id` None: an event that names no user."""

    event_type: str
    user_id: str | UUID | None
    data: Any
    at: datetime
    team: str = settings.TEAM_ID


def announce(
    event_type: str,
    user_id: str | UUID | None,
    data: Any,
    at: datetime,
    team: str = settings.TEAM_ID,
) -> None:
    """Queues one event for every endpoint of the team that wants it."""
    announce_all([Event(event_type, user_id, data, at, team)])


def has_endpoints() -> bool:
    """Whether any event would reach anybody."""
    return WebhookEndpoint.objects.filter(disabled=False).exists()


def announce_all(events: Sequence[Event]) -> list[str]:
    """Queues events in their order; answers the message ids."""
    endpoints = list(WebhookEndpoint.objects.filter(disabled=False).order_by("created_at", "id"))
    if not endpoints or not events:
        return []
    names = _client_user_ids({str(event.user_id) for event in events if event.user_id})
    queued_at = clock.real_now()
    rows = []
    for event in events:
        body = ""
        for endpoint in endpoints:
            if str(endpoint.team_id) != str(event.team) or not is_subscribed(
                endpoint, event.event_type
            ):
                continue
            body = body or envelope(event, names.get(str(event.user_id)))
            rows.append(message(endpoint, event, body, queued_at))
    Message.objects.bulk_create(rows, batch_size=INSERT_ROWS)
    return [row.message_id for row in rows]


def is_subscribed(endpoint: WebhookEndpoint, event_type: str) -> bool:
    return not endpoint.filter_types or event_type in endpoint.filter_types


def message(endpoint: WebhookEndpoint, event: Event, body: str, queued_at: datetime) -> Message:
    """A message that is due at once; not stored yet."""
    return Message(
        message_id=new_message_id(),
        endpoint=endpoint,
        event_type=event.event_type,
        user_id=event.user_id,
        body=body,
        happened_at=event.at,
        queued_at=queued_at,
        due_at=queued_at,
    )


def new_message_id() -> str:
    """Unique, and without the dot that separates the parts of what is signed."""
    return "msg_" + "".join(secrets.choice(ALPHABET) for _ in range(27))


def envelope(event: Event, client_user_id: str | None) -> str:
    """The body as sent. Events without a user leave its fields out (webhooks.md 2)."""
    body: dict[str, Any] = {
        "event_type": event.event_type,
        "data": event.data,
        "team_id": event.team,
    }
    if event.user_id is not None:
        body |= {"user_id": str(event.user_id), "client_user_id": client_user_id}
    return orjson.dumps(body).decode()


def _client_user_ids(user_ids: set[str]) -> dict[str, str]:
    found = User.objects.filter(id__in=user_ids).values_list("id", "client_user_id")
    return {str(key): name for key, name in found}
