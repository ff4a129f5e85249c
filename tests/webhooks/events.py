"""Rows of the inbox as its receiver leaves them, for the tests of its pages."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.api.rows import NOW, TEAM, uid
from webhooks.models import Event


def event_body(event_type: str, data: Any, user: int = 1) -> bytes:
    envelope = {
        "event_type": event_type,
        "data": data,
        "team_id": str(TEAM),
        "user_id": str(uid("patient", user)),
        "client_user_id": f"client-{user}",
    }
    return json.dumps(envelope).encode()


def event(n: int, event_type: str = "labtest.order.updated", **values: Any) -> Event:
    """Event number `n` in order of receipt, a minute after the one before it."""
    data = values.pop("data", {"id": str(uid("order", n)), "sample_id": "Canary-sample"})
    user = values.pop("user", 1)
    body = values.pop("body", event_body(event_type, data, user))
    received = values.pop("received_at", NOW + timedelta(minutes=n))
    row = Event(
        **{
            "message_id": f"msg_{n}",
            "sent_at": received - timedelta(seconds=1),
            "received_at": received,
            "last_received_at": received,
            "due_at": received,
            "body": body,
            "body_digest": hashlib.sha256(body or b"").digest()[:16],
            "event_type": event_type,
            "subject_id": str(data.get("order_id") or data.get("id") or "")
            if isinstance(data, dict)
            else "",
            "user_id": uid("patient", user),
            "team_id": TEAM,
            "state": "done",
            "outcome": "applied",
            "attempts": 0,
            "applied_at": received + timedelta(seconds=2),
            **values,
        }
    )
    row.save()
    return row


def failed(n: int, reason: str = "Expected `int`, got `str`", **values: Any) -> Event:
    """An event that was tried as often as it is and waits for a person."""
    return event(
        n,
        **{
            "state": "dead",
            "outcome": "failed",
            "reason": reason,
            "path": "$.id",
            "attempts": 2,
            **values,
        },
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
