"""The queue of webhook events: one row per message, in the caller's transaction (webhooks.md 2).

Code that changes the world calls `announce`; `sandbox.deliveries` sends the messages. Without an
enabled endpoint (`has_endpoints`) callers need not even compute events.
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

ENDPOINTS_SQL = """
SELECT * FROM sandbox_webhookendpoint WHERE NOT disabled ORDER BY created_at, id FOR KEY SHARE
"""
"""Enabled endpoints. Until the end of the transaction, none of them is deleted."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event at the world's time `at`. `data` is JSON-able, or JSON text in an
    `orjson.Fragment`. `user_id` None: an event without a user."""

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
    """Queue one event for every endpoint of the team that is subscribed to it."""
    announce_all([Event(event_type, user_id, data, at, team)])


def has_endpoints() -> bool:
    """Return whether there is an enabled endpoint."""
    return WebhookEndpoint.objects.filter(disabled=False).exists()


def announce_all(events: Sequence[Event]) -> list[str]:
    """Queue events in their order; return the message ids."""
    endpoints = list(WebhookEndpoint.objects.raw(ENDPOINTS_SQL))
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
    """Return an unsaved message that is due at once."""
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
    """Return a unique id without a dot: dots separate the parts of the signed text."""
    return "msg_" + "".join(secrets.choice(ALPHABET) for _ in range(27))


def envelope(event: Event, client_user_id: str | None) -> str:
    """Return the body as sent. Events without a user have no user fields (webhooks.md 2)."""
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
