"""Verification of webhook deliveries by the service's signature over the raw bytes.

::

    Unverified
    ├── Unsigned     a header is missing
    ├── Misshapen    a header is malformed
    ├── Forged       no signature matches a configured secret
    └── Stale        genuine, but its time differs too much from our clock

The text of these errors never contains received data. Interface: webhooks, chapter 1.1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

SECRET_PREFIX = "whsec_"  # noqa: S105 - the label in front of every secret
TOLERANCE = timedelta(minutes=5)
"""The accepted difference between the time of a delivery and our clock, in either direction."""

MAX_SIGNATURES = 8
"""The most signatures checked per delivery; a sender that rotates its secret sends two."""

_SHORTEST_KEY = 16
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURES = re.compile(r"[\x20-\x7e]{1,4096}")


class Unverified(Exception):
    """A delivery that was not verified; ``reason`` is the key of its counter."""

    reason = "unverified"

    def __str__(self) -> str:
        return self.reason


class Unsigned(Unverified):
    """One of the three headers is missing."""

    reason = "unsigned"


class Misshapen(Unverified):
    """A header is malformed; ``part`` names it: id, timestamp, or signature."""

    reason = "misshapen"

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part

    def __str__(self) -> str:
        return f"{self.reason} {self.part}"


class Forged(Unverified):
    """No signature matches, or all are in an unknown scheme."""

    reason = "bad signature"


class Stale(Unverified):
    """The signature is valid but the time of the delivery is outside the tolerance.

    ``seconds_off`` is the time of the sender minus ours. The delivery was replayed or, when all
    deliveries are stale, our clock is wrong.
    """

    reason = "stale timestamp"

    def __init__(self, seconds_off: float) -> None:
        super().__init__(seconds_off)
        self.seconds_off = seconds_off


@dataclass(frozen=True, slots=True)
class Secret:
    """A signing secret.

    ``name`` identifies the secret on a page and reveals nothing about it.
    """

    name: str
    key: bytes = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Secret:
        """Parse ``whsec_…``; raises ValueError."""
        try:
            key = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            key = b""
        if not text.startswith(SECRET_PREFIX) or len(key) < _SHORTEST_KEY:
            raise ValueError("a webhook secret is whsec_ and at least 16 bytes in base64")
        return cls(hashlib.sha256(b"webhook secret " + key).hexdigest()[:8], key)


@dataclass(frozen=True, slots=True)
class VerifiedDelivery:
    """A genuine delivery.

    ``message_id`` is the same on every attempt; ``sent_at`` is not. ``key`` is the name of the
    secret that signed it.
    """

    message_id: str
    sent_at: datetime
    key: str


def read_secrets(texts: Iterable[str]) -> tuple[Secret, ...]:
    """Parse the configured secrets once, for :func:`verify`."""
    return tuple(Secret.read(text) for text in texts)


def verify(
    raw_body: bytes,
    headers: Mapping[str, str],
    secrets: Sequence[Secret],
    prefixes: Sequence[str],
    now: datetime,
) -> VerifiedDelivery:
    """Return the identity of a delivery; raises Unverified.

    ``headers`` must support look-up by lower-case name. ``prefixes`` are the accepted spellings of
    the three headers, the preferred one first.
    """
    message_id, timestamp, signatures = parse_signature_headers(headers, prefixes)
    key = _signer(f"{message_id}.{timestamp}.".encode() + raw_body, signatures, secrets)
    if key is None:
        raise Forged
    # Check the time after the signature: only a genuine delivery tells anything about the clocks.
    seconds_off = int(timestamp) - now.timestamp()
    if abs(seconds_off) > TOLERANCE.total_seconds():
        raise Stale(seconds_off)
    return VerifiedDelivery(message_id, datetime.fromtimestamp(int(timestamp), UTC), key)


def parse_signature_headers(
    headers: Mapping[str, str], prefixes: Sequence[str]
) -> tuple[str, str, str]:
    """Return id, timestamp, and signatures from the headers, without verifying them.

    Raises Unsigned or Misshapen. The body is not needed.
    """
    message_id, timestamp, signatures = _headers(headers, prefixes)
    if not _ID.fullmatch(message_id):
        raise Misshapen("id")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise Misshapen("timestamp")
    if not _SIGNATURES.fullmatch(signatures):
        raise Misshapen("signature")
    return message_id, timestamp, signatures


def _headers(headers: Mapping[str, str], prefixes: Sequence[str]) -> tuple[str, str, str]:
    """Return the headers of the first prefix that has all three; prefixes are never mixed."""
    for prefix in prefixes:
        values = [headers.get(f"{prefix}-{part}") for part in ("id", "timestamp", "signature")]
        message_id, timestamp, signatures = values
        if message_id is not None and timestamp is not None and signatures is not None:
            return message_id, timestamp, signatures
    raise Unsigned


def _signer(content: bytes, signatures: str, secrets: Sequence[Secret]) -> str | None:
    """Return the name of the secret that made one of the signatures.

    Every secret is compared with every signature, so that the duration reveals nothing.
    """
    sent = signatures.split(" ", MAX_SIGNATURES)[:MAX_SIGNATURES]
    names: list[str] = []
    for secret in secrets:
        expected = b"v1," + b64encode(hmac.digest(secret.key, content, "sha256"))
        same = sum(hmac.compare_digest(expected, signature.encode()) for signature in sent)
        names += [secret.name] * min(same, 1)
    return names[0] if names else None
