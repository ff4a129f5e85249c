"""Webhook events: the envelope, and one event as whoever applies it gets it.

Interface: webhooks, chapters 2 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Heard:
    """One event of the inbox, its envelope read and its `data` left as received.

    `number` grows with receipt and never changes, replays included. `received_at` is the moment
    of the first delivery, by our clock, aware UTC. `data` is the JSON of the envelope's `data`,
    byte for byte.
    """

    number: int
    message_id: str
    event_type: str
    received_at: datetime
    team_id: UUID | None
    user_id: UUID | None
    client_user_id: str | None
    data: bytes
