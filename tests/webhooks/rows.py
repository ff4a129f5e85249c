"""Events put straight into the inbox."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from tests.webhooks.records import OUR_TEAM, TEAM, USER
from webhooks.models import Event


def event(event_type: str, data: Any, **columns: Any) -> Event:
    """A row of the inbox as receiving leaves it, not saved yet. `data` may be a whole body."""
    envelope = {"event_type": event_type, "data": data, "team_id": TEAM, "user_id": USER}
    body = data if isinstance(data, bytes) else json.dumps(envelope).encode()
    given: dict[str, Any] = {
        "message_id": f"msg_{uuid.uuid4().hex}",
        "sent_at": datetime.now(UTC),
        "body": body,
        "body_digest": hashlib.sha256(body).digest()[:16],
        "event_type": event_type,
        **columns,
    }
    return Event(**given)


def know_our_team() -> None:
    """Somebody of our team, without whom nothing is applied."""
    with connection.cursor() as cursor:
        cursor.execute(OUR_TEAM)


def put(event_type: str, data: Any, **columns: Any) -> Event:
    know_our_team()
    row = event(event_type, data, **columns)
    row.save()
    return row
