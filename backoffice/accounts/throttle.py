"""Limit attempts to guess: buckets that fill with each attempt and empty with time.

A full bucket delays and never locks out: it empties by one attempt every `every` seconds. Buckets
are database rows, so a flushed or hung Redis changes nothing. Each attempt is one statement, so
attempts that arrive together are counted one by one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import Final

from django.db import connection

_ACQUIRE: Final = """
INSERT INTO accounts_throttle AS bucket (key, free_at)
VALUES (%(key)s, statement_timestamp() + make_interval(secs => %(every)s))
ON CONFLICT (key) DO UPDATE
SET free_at = greatest(bucket.free_at, statement_timestamp()) + make_interval(secs => %(every)s)
WHERE bucket.free_at <= statement_timestamp() + make_interval(secs => %(room)s)
RETURNING true
"""
_RELEASE: Final = """
UPDATE accounts_throttle SET free_at = free_at - make_interval(secs => %(every)s)
WHERE key = %(key)s
"""


@dataclass(frozen=True, slots=True)
class ThrottleBucket:
    """At most `size` attempts at once, then one every `every` seconds, for each `subject`."""

    name: str
    size: int
    every: int

    def try_acquire(self, subject: str) -> bool:
        """Count an attempt and return True; False, without counting it, if the bucket is full."""
        room = self.every * (self.size - 1)
        with connection.cursor() as cursor:
            cursor.execute(_ACQUIRE, {**self._row(subject), "room": room})
            return cursor.fetchone() is not None

    def release(self, subject: str) -> None:
        """Uncount an attempt that was no guess."""
        with connection.cursor() as cursor:
            cursor.execute(_RELEASE, self._row(subject))

    def _row(self, subject: str) -> dict[str, str | int]:
        # The typed text may be a password in the wrong field: only a digest is stored.
        digest = hashlib.sha256(f"{self.name}\n{subject}".encode()).hexdigest()
        return {"key": digest, "every": self.every}


PASSWORDS: Final = ThrottleBucket("passwords of an account", 5, 240)
"""At most 20 guesses in any hour."""
ADDRESSES: Final = ThrottleBucket("passwords from an address", 30, 10)
"""A clinic has one address for many people: only failures count."""
CODES: Final = ThrottleBucket("codes of an account", 5, 240)
USED_CODES: Final = ThrottleBucket("a code is used once", 1, 120)
"""`every` is longer than a code is valid."""
RESETS: Final = ThrottleBucket("links for an email address", 2, 900)
RESETS_FROM: Final = ThrottleBucket("links from an address", 10, 60)
AUDITED_REFUSALS: Final = ThrottleBucket("refusals told to the audit trail", 1, 60)


def network_prefix(ip: str) -> str:
    """Return what counts as one address: for IPv6 the /64 network of a household or clinic."""
    if ":" not in ip:
        return ip
    return str(IPv6Network(f"{ip}/64", strict=False))


def delete_empty_buckets() -> None:
    """Delete the rows of empty buckets: they mean the same as no row."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM accounts_throttle WHERE free_at < statement_timestamp()")
