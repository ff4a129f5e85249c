"""The three headers of a delivery (webhooks.md 1.1)."""

from __future__ import annotations

import base64
import hmac
import os
from collections.abc import Sequence
from hashlib import sha256

PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """The key in a secret's text; ValueError when there is none."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"a secret starts with {PREFIX}")
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)


def new_secret() -> str:
    """A secret nobody knows yet."""
    return PREFIX + base64.b64encode(os.urandom(24)).decode()


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """One `v1,<base64>` entry."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()


def headers(
    keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes, prefix: str
) -> dict[str, str]:
    """The headers of one attempt, signed with every key that is valid."""
    return {
        f"{prefix}-id": message_id,
        f"{prefix}-timestamp": str(timestamp),
        f"{prefix}-signature": " ".join(
            signature(key, message_id, timestamp, body) for key in keys
        ),
    }
