"""How often may be tried what can be guessed: buckets that fill with each try and empty with time.

A full bucket is a delay, never a lock: it empties by one try each `every` seconds. Buckets are rows
of the database, where a flushed or hung Redis changes nothing, and one statement each, so that
guesses which arrive together are counted one by one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from ipaddress import IPv6Network
from typing import Final

from django.db import connection

_ACQUIRE: Final = """
INSERT INTO backoffice_throttle AS kept (key, free_at)
VALUES (%(key)s, statement_timestamp() + make_interval(secs => %(every)s))
ON CONFLICT (key) DO UPDATE
SET free_at = greatest(kept.free_at, statement_timestamp()) + make_interval(secs => %(every)s)
WHERE kept.free_at <= statement_timestamp() + make_interval(secs => %(room)s)
RETURNING true
"""
_RELEASE: Final = """
UPDATE backoffice_throttle SET free_at = free_at - make_interval(secs => %(every)s)
WHERE key = %(key)s
"""


@dataclass(frozen=True, slots=True)
class ThrottleBucket:
    """At most `size` tries at once, then one each `every` seconds; counted apart for each `who`."""

    name: str
    size: int
    every: int

    def take(self, who: str) -> bool:
        """Whether this try may be made; one that may not is not counted."""
        room = self.every * (self.size - 1)
        with connection.cursor() as cursor:
            cursor.execute(_ACQUIRE, {**self._row(who), "room": room})
            return cursor.fetchone() is not None

    def give_back(self, who: str) -> None:
        """The try was no guess."""
        with connection.cursor() as cursor:
            cursor.execute(_RELEASE, self._row(who))

    def _row(self, who: str) -> dict[str, str | int]:
        # What was typed may be a password in the wrong box: only a digest is kept.
        digest = hashlib.sha256(f"{self.name}\n{who}".encode()).hexdigest()
        return {"key": digest, "every": self.every}


PASSWORDS: Final = ThrottleBucket("passwords of an account", 5, 240)
"""At most 20 guesses in any hour."""
ADDRESSES: Final = ThrottleBucket("passwords from an address", 30, 10)
"""A clinic has one address for many people: only failures count."""
CODES: Final = ThrottleBucket("codes of an account", 5, 240)
USED_CODES: Final = ThrottleBucket("a code is used once", 1, 120)
"""Longer than a code is good for."""
RESETS: Final = ThrottleBucket("links for an e-mail address", 2, 900)
RESETS_FROM: Final = ThrottleBucket("links from an address", 10, 60)
AUDITED_REFUSALS: Final = ThrottleBucket("refusals told to the audit trail", 1, 60)


def network_prefix(ip: str) -> str:
    """What is counted as one address: a household or clinic has a whole /64 of the newer kind."""
    if ":" not in ip:
        return ip
    return str(IPv6Network(f"{ip}/64", strict=False))


def delete_empty_buckets() -> None:
    """Buckets that are empty are as good as none."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM backoffice_throttle WHERE free_at < statement_timestamp()")
