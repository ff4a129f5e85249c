"""Booking keys: signed references to a slot, valid for a few minutes (appointments.md 2)."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from sandbox.slots import Venue

LIFETIME = timedelta(minutes=5)
SEAL_BYTES = 12


class Unreadable(Exception):
    """Not a booking key of this sandbox."""


@dataclass(frozen=True, slots=True)
class BookingKey:
    """`address`: the USAddress that was searched for; None for service centers."""

    kind: str
    provider: str
    code: str
    start: datetime
    expires_at: datetime
    address: dict[str, Any] | None


def make(
    seed: int, venue: Venue, start: datetime, expires_at: datetime, address: dict[str, Any] | None
) -> str:
    note = [
        venue.kind,
        venue.provider,
        venue.code,
        int(start.timestamp()),
        int(expires_at.timestamp()),
        address,
    ]
    body = orjson.dumps(note)
    return urlsafe_b64encode(_seal(seed, body) + body).decode().rstrip("=")


def read(seed: int, text: str) -> BookingKey:
    try:
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise Unreadable from None
    seal, body = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(seed, body)):
        raise Unreadable
    kind, provider, code, start, expires_at, address = orjson.loads(body)
    return BookingKey(kind, provider, code, _moment(start), _moment(expires_at), address)


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _seal(seed: int, body: bytes) -> bytes:
    return hmac.digest(b"booking key %d" % seed, body, "sha256")[:SEAL_BYTES]
