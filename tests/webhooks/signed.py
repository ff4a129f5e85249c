"""Deliveries as the sender makes them, written from the interface's document alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

SECRET = "whsec_bG9jYWwtc2FuZGJveC13ZWJob29rLXNlY3JldA=="  # noqa: S105 - the sandbox's


def signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    key = base64.b64decode(secret[len("whsec_") :])
    content = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def headers(
    body: bytes,
    message_id: str,
    *,
    at: float | None = None,
    secret: str = SECRET,
    prefix: str = "webhook",
) -> dict[str, str]:
    timestamp = str(int(time.time() if at is None else at))
    return {
        f"{prefix}-id": message_id,
        f"{prefix}-timestamp": timestamp,
        f"{prefix}-signature": signature(secret, message_id, timestamp, body),
        "content-type": "application/json",
    }


@dataclass
class Message:
    """One message; every delivery of it has the same id and body."""

    body: bytes
    id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")

    def headers(self, **how: Any) -> dict[str, str]:
        return headers(self.body, self.id, **how)


def message(event_type: str, data: object, **envelope: Any) -> Message:
    whole = {"event_type": event_type, "data": data, **envelope}
    return Message(json.dumps(whole, separators=(",", ":")).encode())
