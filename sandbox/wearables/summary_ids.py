"""Ids of summaries that encode their key, so that a record is found by its id without a table.

An id has 64 masked bits of the key (kind, user, provider, day, number of the day) and 58 bits that
prove that the sandbox made it: 122 bits, as many as a version 4 UUID can have.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

_PROOF = (1 << 58) - 1
_KINDS = (
    "activity", "body", "sleep", "sleep_cycle", "workouts", "meal", "profile", "menstrual_cycle",
    "electrocardiogram",
)  # fmt: skip


class SummaryKey(NamedTuple):
    """The key that an id encodes; `day` is the ordinal of a date."""

    kind: str
    user: int
    offer: int
    day: int
    number: int


def make(seed: int, key: SummaryKey) -> str:
    """Return the id of `key` in the world of this seed."""
    place = _KINDS.index(key.kind) << 60
    place |= key.user << 32 | key.offer << 28 | key.day << 4 | key.number
    proof = _hash(seed, "proof", place) & _PROOF
    bits = (place ^ _hash(seed, "mask", proof)) << 58 | proof
    head, tail = bits >> 74, bits & ((1 << 62) - 1)
    middle = bits >> 62 & 0xFFF
    return str(UUID(int=head << 80 | 4 << 76 | middle << 64 | 2 << 62 | tail))


def read(seed: int, value: UUID) -> SummaryKey | None:
    """Return the key of an id; None if this sandbox did not make it."""
    bits = (value.int >> 80) << 74 | (value.int >> 64 & 0xFFF) << 62 | value.int & ((1 << 62) - 1)
    proof = bits & _PROOF
    place = (bits >> 58) ^ _hash(seed, "mask", proof)
    if _hash(seed, "proof", place) & _PROOF != proof or place >> 60 >= len(_KINDS):
        return None
    user, offer = place >> 32 & (1 << 28) - 1, place >> 28 & 15
    return SummaryKey(_KINDS[place >> 60], user, offer, place >> 4 & (1 << 24) - 1, place & 15)


def _hash(seed: int, purpose: str, value: int) -> int:
    text = f"{seed} {purpose} {value}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest())
